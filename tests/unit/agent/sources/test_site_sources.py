"""Sources of a site: their lines are read as a rank's own, and none of them costs the logs, or the look."""

import os
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from agent.deadline import ThreadPool
from agent.errors import Unavailable
from agent.sources import site_sources
from agent.sources.site_sources import WithSiteSources
from agent.sources.source import Answer, LookDepth
from shared.missing import Reason
from shared.plugins import Plugin, Plugins
from shared.wire.log_events import EventKind, LogFile, Logs
from shared.wire.snapshot import Identity
from tests.build.processes.looking import PLAIN, ask_source, rank_of

Function = Callable[[Identity], Iterable[str]]
TIMEOUT = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, "
    "Timeout(ms)=600000) ran for 600041 milliseconds before timing out."
)
OWN = Logs(files=(LogFile(path="/out", lines=("step 1",)),))


class _Logs:
    name = "logs"

    def __init__(self, found: Logs | None) -> None:
        self._found = found

    def look(self, *_: object) -> Answer:
        if self._found is None:
            raise Unavailable(Reason.NOT_FOUND, "no readable file")
        return {"logs": self._found}


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Logs]:
    """Look at this process, with these functions as what a site has installed."""

    def looked(*functions: Function, own: Logs | None = OWN, depth: LookDepth = PLAIN, seconds: float = 10.0) -> Logs:
        usable = {each.__name__: Plugin(each.__name__, "acme 1", each) for each in functions}
        monkeypatch.setattr(site_sources, "plugins", lambda _: Plugins(usable))
        source = WithSiteSources(_Logs(own), ThreadPool())
        found = ask_source(source, rank_of(os.getpid()), depth, seconds=seconds)
        assert isinstance(found, Logs)
        return found

    return looked


def leases(rank: Identity) -> Iterable[str]:
    """Two lines, one of which is an event, and a secret."""
    return [f"lease of rank {rank.rank} lost, password=hunter2hunter2", TIMEOUT]


def raises(rank: Identity) -> Iterable[str]:
    """Fail."""
    raise ValueError("no such shard, password=hunter2hunter2")


def sleeps(rank: Identity) -> Iterable[str]:
    """Take longer than anybody waits."""
    time.sleep(3.0)
    return ["too late"]


def endless(rank: Identity) -> Iterator[str]:
    """Never end by itself."""
    while True:
        yield "x" * 100_000


def test_lines_stand_beside_the_logs(look: Callable[..., Logs]) -> None:
    """With their events, which are this rank's, and without secrets; also where there are no logs."""
    for own in (OWN, None):
        found = look(leases, own=own)
        lines = {file.path: file.lines for file in found.files}
        assert lines.pop("unhang.sources: leases") == (
            "lease of rank 0 lost, password=***",
            TIMEOUT,
        )
        assert lines == ({"/out": ("step 1",)} if own else {})
        (event,) = found.events
        assert (event.kind, event.rank) == (EventKind.WATCHDOG_TIMEOUT, 0)


def test_none_costs_more_than_itself(look: Callable[..., Logs]) -> None:
    """One that raises, one that is late and one that has no end, beside one that is well."""
    found = look(raises, sleeps, endless, leases, seconds=1.0)
    lines = {file.path.removeprefix("unhang.sources: "): file.lines for file in found.files}
    assert lines["raises"] == ("failed: unexpected ValueError: no such shard, password=***",)
    assert lines["sleeps"] == ("failed: it did not finish by the deadline",)
    assert len(lines["endless"]) == 200 and len(lines["endless"][0]) == 2000
    assert lines["leases"] and lines["/out"]


def test_what_nobody_knows_is_missing(look: Callable[..., Logs]) -> None:
    """No log that can be read, and nothing said: the look says why, as it does without plugins."""
    with pytest.raises(Unavailable, match="no readable file"):
        look(own=None)


def test_survey_asks_none(look: Callable[..., Logs]) -> None:
    """It goes to thousands of ranks."""
    assert look(raises, depth=LookDepth(brief=True)) == OWN
