"""What agents say while a collector is told to end reaches the store."""

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from collector.agents.agent_source import parse_one
from collector.agents.registration.registered import Leases
from collector.agents.registration.registered_store import LeaseSharing
from collector.keep.registrations import RegisteredAgent, Renewal
from tests.unit.collector.conftest import Opener


async def test_what_is_heard_during_an_exchange_is_written_by_the_last(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end comes while the store is slow."""
    registrations, begun, stop = opened().registrations, threading.Event(), asyncio.Event()
    exchange = registrations.exchange

    def slowly(renewals: Sequence[Renewal]) -> tuple[RegisteredAgent, ...]:
        begun.set()
        time.sleep(0.3)
        return exchange(renewals)

    monkeypatch.setattr(registrations, "exchange", slowly)
    leases = Leases(0.1)
    ending = asyncio.create_task(LeaseSharing(leases, registrations).keep_on(stop))
    assert await asyncio.to_thread(begun.wait, 60)
    leases.renew(parse_one("node7"))
    stop.set()
    await ending
    assert [heard.address.host for heard in exchange(())] == ["node7"]
