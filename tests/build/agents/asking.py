"""Asks an agent as the collector does, and connects as httpcore does."""

import ssl
from typing import Any

import httpcore

from collector.gather.failures import Again
from collector.gather.fanout.fanout import Fanout, make_client
from collector.gather.fanout.sockets import Backend
from collector.gather.fanout.values import Request, RequestDeadline, RoundOutcome
from collector.hostlists import AgentAddress
from shared.wire.snapshot import RankList

GOOD = RankList(host="node1").model_dump_json().encode()
MOST = 65_536


async def connect(host: str, port: int, tls: ssl.SSLContext | None, *, seconds: float) -> httpcore.AsyncNetworkStream:
    """Connect as httpcore does."""
    stream = await Backend().connect_tcp(host, port, timeout=seconds)
    return stream if tls is None else await stream.start_tls(tls, server_hostname=host, timeout=seconds)


async def ask(url: str, *, client: Any = None, again: list[Again] | None = None) -> RoundOutcome[RankList]:
    """Ask one agent who is there, by a client of its own if none is given. `again` takes what is tried again."""
    request = Request(AgentAddress(host="node1", url=url), "/v1/ranks", {})
    if client is None:
        async with make_client() as client:
            return await ask(url, client=client)
    fanout = Fanout(client, on_again=None if again is None else again.append)
    return await fanout.ask([request], RankList, deadline=RequestDeadline.within(20.0))
