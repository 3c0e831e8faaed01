"""The collector's settings: flags, environment variables `UNHANG_COLLECTOR_...`, defaults, in this order."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_settings import SettingsConfigDict

from collector.question import PATIENCE_SECONDS, SURVEY_ABOVE
from shared.server.accepting.access_settings import AccessSettings, MostConnections, MostConnectionsPerClient
from shared.server.read_settings import read_settings_of

PREFIX = "UNHANG_COLLECTOR_"


def default_store() -> Path:
    """Return where diagnoses are kept: below systemd's STATE_DIRECTORY, else below the user's state directory."""
    state = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if state:
        return Path(state) / "collector.sqlite3"
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home) / "unhang" / "collector.sqlite3"


def _as_text(given: object) -> object:
    return str(given) if isinstance(given, Path) else given


class CollectorSettings(AccessSettings):
    """Everything that can be set about a collector."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    listen: str = Field(default="127.0.0.1:8470", description="Where the API is served, HOST:PORT.")
    most_connections: MostConnections = 2048
    most_connections_per_client: MostConnectionsPerClient = 1536  # a thousand agents behind one NAT may register
    agents: str = Field(
        default="", description="The agents, as a host list: `node[01-16]:8471,gpu[1,3-5]` or URLs; the port is 8471."
    )
    agents_file: Path | None = Field(
        default=None, description="A file of host lists, one per line, `#` comments; read again when it changes."
    )
    agent_url: str = Field(
        default="http://{host}:8471",
        description="The URL of an agent that DNS, Slurm or Kubernetes names only by host or address.",
    )
    file_sd: str = Field(
        default="",
        description="Files of agents in Prometheus' format, JSON or YAML (by their ending), separated by commas; `*` "
        "and `?` as in a shell. Read again when they change.",
    )
    http_sd: str = Field(
        default="", description="URLs that answer with agents in Prometheus' http_sd format, separated by commas."
    )
    http_sd_token_file: Path | None = Field(default=None, description="The bearer token to send to them.")
    dns: str = Field(
        default="",
        description="Names, separated by commas: `_unhang._tcp.example.org` is asked for SRV records, any other, such "
        "as that of a headless service, for its addresses.",
    )
    dns_server: str = Field(default="", description="The name server, ADDRESS:PORT; by default the machine's own.")
    slurm: bool = Field(
        default=False, description="Ask `squeue` on which nodes jobs run; without it, use the allocation we run in."
    )
    kubernetes: str = Field(
        default="", description="Agents are the pods with these labels, e.g. `app.kubernetes.io/name=unhang-agent`."
    )
    kubernetes_namespace: str = Field(default="", description="Where these pods are; by default where ours is.")
    kubernetes_job_namespaces: str = Field(
        default="",
        description="Where the pods of jobs are, separated by commas, `*` for everywhere: pods are named with ranks.",
    )
    kubernetes_api: str = Field(default="", description="The API server's URL; by default that of our own cluster.")
    kubernetes_account: Path = Field(
        default=Path("/var/run/secrets/kubernetes.io/serviceaccount"),
        description="Where the service account's `token`, `ca.crt` and `namespace` are.",
    )
    registration_seconds: float = Field(
        default=0.0,
        ge=0.0,
        le=86_400.0,
        description="Agents may register themselves (`PUT /v1/agents/{host}`); one that has not done so again for this "
        "long counts as lost. 0: they may not.",
    )
    registration_token_file: Path | None = Field(
        default=None,
        description="Only callers with a token of this file may register agents. It must be in `token_file`, too.",
    )
    detect: bool = Field(
        default=True,
        description="Whether to watch the jobs of registered agents, and to diagnose unasked those that stand still: "
        "what is found hung twice is an incident.",
    )
    notify_file: Path | None = Field(
        default=None,
        description="A file, TOML, of receivers of incidents: Alertmanager, PagerDuty, Slack, webhooks.",
    )
    discovery_seconds: float = Field(
        default=15.0,
        ge=0.05,
        le=3600.0,
        description="How often files, servers, DNS and Slurm are asked, and Kubernetes where it cannot be watched.",
    )
    discovery_deadline_seconds: float = Field(
        default=5.0, gt=0.0, le=60.0, description="How long one of them may take to answer."
    )
    agent_token_file: Path | None = Field(
        default=None, description="The bearer token to send to the agents: the first line that is one."
    )
    agent_ca_file: Path | None = Field(
        default=None,
        description="CA certificates that signed those of the agents; by default the machine's own. "
        "Agents that serve HTTPS are named by URL: `https://node[01-16]:8471`.",
    )
    agent_cert_file: Path | None = Field(
        default=None, description="The certificate to present to the agents. Read again when it changes."
    )
    agent_key_file: Path | None = Field(
        default=None, description="Its private key; by default in the certificate's file."
    )
    store: Annotated[str, BeforeValidator(_as_text)] = Field(
        default_factory=lambda: str(default_store()),
        repr=False,  # a URL may hold a password
        description="Where diagnoses are kept: a file of SQLite, or `postgresql://USER@HOST/DATABASE`, which several "
        "collectors may share. By default the file `collector.sqlite3` in $STATE_DIRECTORY, or in "
        "$XDG_STATE_HOME/unhang.",
    )
    lease_seconds: float = Field(
        default=10.0,
        ge=1.0,
        le=600.0,
        description="How long a collector may be silent before others take over the jobs that it diagnoses.",
    )
    keep_diagnoses: int = Field(default=1000, ge=1, description="How many diagnoses are kept; the oldest go first.")
    keep_unasked_diagnoses: int = Field(
        default=500,
        ge=1,
        description="How many of those are kept that nobody asked for, besides those that incidents rest on.",
    )
    keep_days: float = Field(default=30.0, gt=0.0, description="For how many days a diagnosis is kept.")
    keep_bytes: int = Field(
        default=2 * 1024**3, ge=1, description="How many bytes the diagnoses and their snapshots may take, compressed."
    )
    looks: int = Field(default=2, ge=1, le=10, description="Looks per diagnosis; two show what moves.")
    interval_seconds: float = Field(default=3.0, ge=0.0, le=600.0, description="Pause between two looks.")
    deadline_seconds: float = Field(
        default=30.0, gt=0.0, le=3600.0, description="When a verdict is due, whatever has answered by then."
    )
    patience_seconds: float = Field(
        default=PATIENCE_SECONDS,
        ge=0.0,
        le=3600.0,
        description="How much later it may come where only time tells slow from stuck. It ends early if the job moves.",
    )
    survey_above: int = Field(
        default=SURVEY_ABOVE,
        ge=0,
        description="If more agents than this have ranks of a job, they send surveys first, and full looks only at "
        "the ranks that the verdict is about.",
    )
    most_at_once: int = Field(default=256, ge=1, le=65_536, description="Agents asked at the same time.")

    @property
    def watches(self) -> bool:
        """Are jobs watched? Only agents that register tell how far their ranks are."""
        return self.detect and self.registration_seconds > 0


def read_settings(flags: Mapping[str, Any] | None = None) -> CollectorSettings:
    """Return the collector's settings, as `read_settings_of` does."""
    return read_settings_of("collector", CollectorSettings, flags)
