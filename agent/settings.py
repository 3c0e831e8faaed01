"""The agent's settings: from flags and from variables that begin with UNHANG_AGENT_."""

import socket
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from shared.rank_sets import FoldedRanks
from shared.server.accepting.access_settings import AccessSettings, MostConnections, MostConnectionsPerClient
from shared.value import whole


class AgentSettings(AccessSettings):
    """Everything that can be set. Read once, by the command line."""

    model_config = SettingsConfigDict(env_prefix="UNHANG_AGENT_", extra="forbid", frozen=True)

    listen: str = Field(default="127.0.0.1:8471", description="Where to listen, HOST:PORT.")
    most_connections: MostConnections = 128
    most_connections_per_client: MostConnectionsPerClient = 64
    host_name: str | None = Field(
        default=None, description="The name of this node in answers; by default the machine's own."
    )
    collectors: str = Field(
        default="",
        description="URLs of collectors, separated by commas, at which to register: each counts this node as lost when "
        "it stops registering.",
    )
    advertise: str = Field(
        default="",
        description="Our own URL for them; by default the address from which we register, and our port.",
    )
    collector_token_file: Path | None = Field(
        default=None, description="The bearer token to send to them: the first line of the file that is one."
    )
    collector_ca_file: Path | None = Field(
        default=None,
        description="CA certificates that signed those of the collectors; by default the machine's own.",
    )
    only_ranks: FoldedRanks | None = Field(
        default=None,
        description="Report only these global ranks, e.g. `0-3`: two agents can share one machine.",
    )
    only_users: str = Field(
        default="", description="Report only these users' processes, by name or id, e.g. `alice,1234`."
    )
    py_spy: Path | None = Field(
        default=None, description="The py-spy program; by default the one beside our Python, else on PATH."
    )
    ras: Literal["safe", "always", "never"] = Field(
        default="safe",
        description="Whether to ask NCCL RAS: `safe` does not where that may crash this version of NCCL.",
    )
    ras_monitor: bool = Field(
        default=False,
        description="Whether NCCL RAS, 2.29.2 or newer, is to report processes that it has declared dead, over one "
        "connection that is kept open; not with `ras=never`.",
    )
    debuggers: bool = Field(
        default=False,
        description="Whether gdb, pystack and strace may be run on a rank when asked. They stop or slow it, and read "
        "the job's own program files with the agent's rights.",
    )
    look_timeout_seconds: float = Field(
        default=10.0,
        gt=0,
        le=300,
        description="How long one snapshot may take unless the request says less.",
    )
    beat_seconds: float = Field(
        default=5.0,
        ge=0,
        le=3600,
        description="How often to check whether ranks make progress; 0 switches it off.",
    )
    discover_seconds: float = Field(
        default=15.0, gt=0, le=3600, description="How often to search for new ranks between requests."
    )

    @property
    def host(self) -> str:
        """The name of this node."""
        return self.host_name or whole(socket.gethostname())
