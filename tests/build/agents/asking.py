"""Asks agents as the collector does, one, many or in a whole sweep, and connects as httpcore does."""

import ssl
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import httpcore
import httpx

from collector.gather.fanout.fanout import Fanout, make_client
from collector.gather.fanout.one_request import Parameters
from collector.gather.fanout.sockets import Backend
from collector.gather.fanout.values import Request, RequestDeadline, RoundOutcome
from collector.gather.sweep import sweep
from collector.gather.swept import Sweep
from collector.hostlists import AgentAddress
from collector.question import NativePolicy, Question, Step
from shared.wire.snapshot import RankList
from tests.build.agents.fake_agents import JOB, FakeAgent, mounts

GOOD = RankList(host="node1").model_dump_json().encode()
MOST = 65_536


async def connect(host: str, port: int, tls: ssl.SSLContext | None, *, seconds: float) -> httpcore.AsyncNetworkStream:
    """Connect as httpcore does."""
    stream = await Backend().connect_tcp(host, port, timeout=seconds)
    return stream if tls is None else await stream.start_tls(tls, server_hostname=host, timeout=seconds)


async def ask_agents(
    addresses: Sequence[AgentAddress],
    *,
    seconds: float = 20.0,
    client: httpx.AsyncClient | None = None,
    path: str = "/v1/ranks",
    parameters: Parameters | None = None,
    rounds: int = 1,
    **fanout: Any,
) -> RoundOutcome[RankList]:
    """Ask agents over real sockets for their ranks, as often as told; return what the last round gave.

    By a client of its own if none is given; the rest is for `Fanout`.
    """
    most = {"most_at_once": fanout["most_at_once"]} if "most_at_once" in fanout else {}
    async with nullcontext(client) if client is not None else make_client(**most) as asking:
        asker = Fanout(asking, **fanout)
        requests = [Request(address, path, parameters or {}) for address in addresses]
        for _ in range(rounds):
            outcome = await asker.ask(requests, RankList, deadline=RequestDeadline.within(seconds))
    return outcome


async def ask_agent(url: str, **how: Any) -> RoundOutcome[RankList]:
    """Ask one agent as `ask_agents` does."""
    return await ask_agents([AgentAddress(host="node1", url=url)], **how)


async def sweep_agents(
    *agents: FakeAgent,
    more: Sequence[AgentAddress] = (),
    earlier: dict[str, RankList] | None = None,
    progress: Callable[[Step], None] | None = None,
    **question: Any,
) -> Sweep:
    """Sweep over fake agents, and over `more` addresses of the real network; no second look waits for long."""
    asked = Question.model_validate({"job": JOB, "interval_seconds": 0.01, "native": NativePolicy.NEVER, **question})
    async with make_client(mounts=mounts(*agents)) as client:
        addresses = [*(agent.address for agent in agents), *more]
        return await sweep(asked, addresses, client, earlier=earlier, progress=progress)
