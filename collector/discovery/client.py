"""Asks the servers that know agents, which are few: a client for each question."""

import ssl
from collections.abc import Sequence

import httpx

from collector.fanout.lookups import LookingUp

_SocketOption = tuple[int, int, int]


def make_client(
    headers: dict[str, str], tls: ssl.SSLContext | None, *, socket_options: Sequence[_SocketOption] = ()
) -> httpx.AsyncClient:
    """Return a client without deadlines. A name that no server answers holds up neither other names nor our end."""
    direct = httpx.AsyncHTTPTransport(verify=tls or False, trust_env=False, socket_options=socket_options)
    return httpx.AsyncClient(transport=LookingUp(direct), timeout=None, trust_env=False, headers=headers)
