"""`unhang collector`: the service that asks all agents and judges."""

from contextlib import suppress
from typing import Any

import click

from shared.server.lifecycle.stop_signals import StopSignals


@click.command(
    short_help="Serve diagnoses of all jobs, for people and bots.",
    epilog="""\b
Examples:
  unhang collector --agents 'node[01-16]:8471'
  unhang collector --listen 0.0.0.0:8470 --token-file clients.token --agents-file agents.txt

Each option is also a variable, e.g. UNHANG_COLLECTOR_AGENTS; the option wins.""",
)
@click.option("--listen", metavar="HOST:PORT", help="Where to serve the API. [default: 127.0.0.1:8470]")
@click.option("--agents", metavar="HOSTLIST", help="The agents, e.g. node[01-16]:8471 or URLs.")
@click.option("--agents-file", metavar="FILE", help="Host lists, one per line; read again when it changes.")
@click.option("--agent-url", metavar="URL", help="URL of agents known only by host. [default: http://{host}:8471]")
@click.option("--file-sd", metavar="FILES", help="Agents in Prometheus' file_sd format; * and ? are allowed.")
@click.option("--http-sd", metavar="URLS", help="Servers that answer with agents in Prometheus' http_sd format.")
@click.option("--http-sd-token-file", metavar="FILE", help="The bearer token to send to them.")
@click.option("--dns", metavar="NAMES", help="Agents by SRV records (_unhang._tcp.example.org) or all addresses.")
@click.option("--dns-server", metavar="ADDRESS:PORT", help="The name server. [default: the machine's own]")
@click.option("--slurm/--no-slurm", default=None, help="Agents on the nodes of Slurm's running jobs. [default: no]")
@click.option("--kubernetes", metavar="LABELS", help="Agents are the pods with these labels.")
@click.option("--kubernetes-namespace", metavar="NAME", help="Where these pods are. [default: our own namespace]")
@click.option("--kubernetes-job-namespaces", metavar="NAMES", help="Where the pods of jobs are; * for everywhere.")
@click.option("--kubernetes-api", metavar="URL", help="The API server. [default: that of our own cluster]")
@click.option("--kubernetes-account", metavar="DIR", help="Where the service account's token and ca.crt are.")
@click.option(
    "--registration-seconds",
    metavar="S",
    help="How long a registration lasts; 0: agents may not register. [default: 0]",
)
@click.option("--registration-token-file", metavar="FILE", help="Tokens with which agents may register.")
@click.option("--detect/--no-detect", default=None, help="Watch the jobs of registered agents. [default: yes]")
@click.option("--notify-file", metavar="FILE", help="Receivers of incidents: docs/notifications.md.")
@click.option("--discovery-seconds", metavar="S", help="How often agent sources are queried. [default: 15]")
@click.option("--discovery-deadline-seconds", metavar="S", help="How long each may take. [default: 5]")
@click.option("--token-file", metavar="FILE", help="Bearer tokens of clients; needed to listen beyond loopback.")
@click.option("--tls-cert-file", metavar="FILE", help="Our certificate: serve HTTPS.")
@click.option("--tls-key-file", metavar="FILE", help="Its private key, unless it is in the same file.")
@click.option("--client-ca-file", metavar="FILE", help="Clients must present a certificate signed by one of these CAs.")
@click.option("--client-names", metavar="NAMES", help="Only clients with one of these names in their certificate.")
@click.option("--allow-clients", metavar="NETWORKS", help="Only clients from there, e.g. 10.0.0.0/8,192.168.1.5.")
@click.option("--allow-hosts", metavar="NAMES", help="Further names callers may use, e.g. that of a proxy in front.")
@click.option("--most-connections", metavar="N", help="Most open connections. [default: 2048]")
@click.option("--most-connections-per-client", metavar="N", help="Of these, for one address. [default: 1536]")
@click.option("--audit-log", metavar="FILE", help="File for one JSON line per inspection and refusal.")
@click.option("--agent-token-file", metavar="FILE", help="The bearer token to send to the agents.")
@click.option("--agent-ca-file", metavar="FILE", help="CA certificates to trust for agents with https:// URLs.")
@click.option("--agent-cert-file", metavar="FILE", help="The certificate to present to the agents.")
@click.option("--agent-key-file", metavar="FILE", help="Its private key, unless it is in the same file.")
@click.option("--store", metavar="FILE|URL", help="Where diagnoses are kept: SQLite, or postgresql://USER@HOST/NAME.")
@click.option(
    "--lease-seconds", metavar="S", help="Silence after which other collectors take over a run. [default: 10]"
)
@click.option("--keep-diagnoses", metavar="N", help="How many to keep. [default: 1000]")
@click.option("--keep-unasked-diagnoses", metavar="N", help="Of those made without a request. [default: 500]")
@click.option("--keep-days", metavar="DAYS", help="For how long. [default: 30]")
@click.option("--keep-bytes", metavar="BYTES", help="How much space they may take, compressed. [default: 2 GiB]")
@click.option("--looks", metavar="N", help="Looks per diagnosis. [default: 2]")
@click.option("--interval", "interval_seconds", metavar="S", help="Pause between two looks. [default: 3]")
@click.option("--deadline", "deadline_seconds", metavar="S", help="When a verdict is due. [default: 30]")
@click.option(
    "--patience", "patience_seconds", metavar="S", help="How much later, where only time decides. [default: 60]"
)
@click.option("--survey-above", metavar="N", help="With more agents than this, look briefly first. [default: 32]")
@click.option("--most-at-once", metavar="N", help="Agents asked at the same time. [default: 256]")
@click.pass_obj
def collector(ended_by: list[int] | None, /, **flags: Any) -> None:
    """Serve diagnoses of the jobs that the agents see, until a signal."""
    with StopSignals(ended_by or ()) as stop:
        from collector.serve import serve
        from collector.settings import read_settings

        settings = read_settings(flags)
        stop.check()
        with suppress(KeyboardInterrupt):  # the way to end a service is no failure of it
            serve(settings, stop)
