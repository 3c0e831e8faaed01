"""`unhang agent`: the service on every node."""

from contextlib import suppress
from typing import Any

import click

from shared.server.lifecycle.stop_signals import StopSignals


@click.command(
    short_help="Serve what is seen on this node to a collector.",
    epilog="""\b
Examples:
  unhang agent
  unhang agent --listen 0.0.0.0:8471 --token-file /etc/unhang/agent.token

Each option is also a variable, e.g. UNHANG_AGENT_LISTEN; the option wins.""",
)
@click.option("--listen", metavar="HOST:PORT", help="Where to listen. [default: 127.0.0.1:8471]")
@click.option("--host-name", metavar="NAME", help="This node's name in answers. [default: the machine's own]")
@click.option("--token-file", metavar="FILE", help="Bearer tokens, one per line; needed to listen beyond loopback.")
@click.option("--tls-cert-file", metavar="FILE", help="Our certificate: serve HTTPS.")
@click.option("--tls-key-file", metavar="FILE", help="Its private key, unless it is in the same file.")
@click.option("--client-ca-file", metavar="FILE", help="Callers must present a certificate signed by one of these CAs.")
@click.option("--client-names", metavar="NAMES", help="Only callers with one of these names in their certificate.")
@click.option("--allow-clients", metavar="NETWORKS", help="Only callers from there, e.g. 10.0.0.0/8,192.168.1.5.")
@click.option("--allow-hosts", metavar="NAMES", help="Further names callers may use, e.g. that of a proxy in front.")
@click.option("--collectors", metavar="URLS", help="Collectors at which to register this agent.")
@click.option("--advertise", metavar="URL", help="Our URL for them. [default: the address they see]")
@click.option("--collector-token-file", metavar="FILE", help="The bearer token to send to them.")
@click.option("--collector-ca-file", metavar="FILE", help="CA certificates to trust for collectors with https:// URLs.")
@click.option("--only-ranks", metavar="SET", help="Report only these ranks, e.g. 0-3: for two agents on one machine.")
@click.option("--only-users", metavar="USERS", help="Report only these users' processes, e.g. alice,1234.")
@click.option("--most-connections", metavar="N", help="Most open connections. [default: 128]")
@click.option("--most-connections-per-client", metavar="N", help="Of these, for one address. [default: 64]")
@click.option("--audit-log", metavar="FILE", help="File for one JSON line per inspection and refusal.")
@click.option("--py-spy", metavar="FILE", help="The py-spy program. [default: beside our Python, else on PATH]")
@click.option("--ras", metavar="WHEN", help="Whether to ask NCCL RAS: safe, always or never. [default: safe]")
@click.option(
    "--ras-monitor/--no-ras-monitor",
    default=None,
    help="Have NCCL RAS report dead processes over a connection that is kept open. [default: no]",
)
@click.option("--debuggers/--no-debuggers", default=None, help="Let callers run gdb, pystack and strace. [default: no]")
@click.option("--look-timeout-seconds", metavar="S", help="How long one snapshot may take. [default: 10]")
@click.option("--beat-seconds", metavar="S", help="How often to check for progress; 0: never. [default: 5]")
@click.option("--discover-seconds", metavar="S", help="How often to search for ranks. [default: 15]")
@click.pass_obj
def agent(ended_by: list[int] | None, /, **flags: Any) -> None:
    """Serve what can be seen of this node's ranks, until a signal.

    Reads processes of others: run it as root, or as a user with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.
    """
    with StopSignals(ended_by or ()) as stop:
        from agent.serve import serve
        from cli.settings import read_agent_settings

        settings = read_agent_settings(flags)
        stop.check()
        with suppress(KeyboardInterrupt):  # the way to end a service is no failure of it
            serve(settings, stop)
