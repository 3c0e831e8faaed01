"""One look: its order, its failures, and that no process is looked at twice at once."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from agent.deadline import Deadline, ThreadPool
from agent.errors import Gone, Unavailable, missing_for
from agent.find.choose_ranks import Rank
from agent.look.looker import NICENESS, Looker
from agent.proc.procfs import ProcFs
from agent.sources.all import make_sources
from agent.sources.look_context import LookContext
from agent.sources.process import ProcessSource
from agent.sources.source import Answer, LookDepth, Source
from agent.tools.memory_budget import Memory
from agent.tools.run_bounded import find_program
from shared.errors import NotPermitted
from shared.missing import Missing, Reason
from shared.wire.snapshot import Beat, Fds, Process, RankSnapshot
from shared.wire.stacks import Stacks
from tests.build.processes.looking import PLAIN, rank_of
from tests.build.processes.processes import READY, running

pytestmark = pytest.mark.ptrace


class Fake:
    """A source that does what it is told."""

    def __init__(self, name: str, work: Callable[[LookDepth], object]) -> None:
        self.name = name
        self._work = work

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        return {self.name: self._work(question)}


class Notes:
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.sources: list[tuple[str, Reason | None]] = []
        self.beats: list[tuple[Beat, Beat]] = []

    def source_done(self, source: str, seconds: float, reason: Reason | None) -> None:
        self.sources.append((source, reason))

    def looked(self, rank: Rank, before: Beat, after: Beat) -> None:
        self.beats.append((before, after))


def fail(error: Exception) -> Callable[[LookDepth], object]:
    """Return work that raises `error`."""

    def work(question: LookDepth) -> object:
        raise error

    return work


def sources(**works: Callable[[LookDepth], object]) -> tuple[Source, ...]:
    """Return five sources: the real `process`, and fakes for the others."""
    plain: dict[str, Callable[[LookDepth], object]] = {
        "stacks": lambda question: Stacks(),
        "fds": lambda question: Fds(total=0),
        "logs": fail(Unavailable(Reason.NOT_FOUND, "no file")),
        "recorder": fail(Unavailable(Reason.NOT_ENABLED, "no socket")),
    }
    fakes = tuple(Fake(name, work) for name, work in {**plain, **works}.items() if name != "process")
    first: Source = Fake("process", works["process"]) if "process" in works else ProcessSource(ThreadPool())
    return (first, *fakes)


def look(rank: Rank, looker: Looker, question: LookDepth = PLAIN, seconds: float = 5.0) -> RankSnapshot:
    """Look at one rank."""
    return looker.look(rank, LookContext(ProcFs(), "here"), question, Deadline(seconds))


def test_every_source_has_its_part() -> None:
    """Seen or missing, and the observer is told of each. One whose process has gone is gone, for all of them."""
    notes = Notes()
    looker = Looker(sources(), ThreadPool(), notes)
    with running() as process:
        rank = rank_of(process.pid)
        found = look(rank, looker)
        reused = look(rank._replace(stat=rank.stat._replace(start_ticks=rank.stat.start_ticks - 1)), looker)
    assert isinstance(found.process, Process) and isinstance(found.fds, Fds)
    assert isinstance(found.recorder, Missing) and found.recorder.reason is Reason.NOT_ENABLED
    assert dict(notes.sources[:5]) == {
        "process": None,
        "stacks": None,
        "fds": None,
        "logs": Reason.NOT_FOUND,
        "recorder": Reason.NOT_ENABLED,
    }
    for gone in (reused, look(rank, looker)):  # a pid alone may be another's by now
        for part in (gone.process, gone.stacks, gone.fds, gone.logs, gone.recorder):
            assert isinstance(part, Missing) and part.reason is Reason.GONE


def test_sources_give_way_to_the_job_but_for_those_that_hold_it_still() -> None:
    """A slow py-spy would keep the rank stopped. Nobody else of this process is slowed down."""
    niceness: dict[str, int] = {}

    def note(name: str) -> Callable[[LookDepth], object]:
        def work(question: LookDepth) -> object:
            niceness[name] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
            raise Unavailable(Reason.NOT_FOUND, "nothing")

        return work

    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    names = ("process", "stacks", "fds", "logs", "recorder")
    with running() as process:
        look(rank_of(process.pid), Looker(sources(**{name: note(name) for name in names}), ThreadPool(), Notes()))
    assert niceness == {name: own if name in ("process", "stacks") else max(own, NICENESS) for name in names}
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unavailable(Reason.REFUSED, "x"), Reason.REFUSED),
        (Gone("x"), Reason.GONE),
        (NotPermitted("x", advice="do this"), Reason.NOT_PERMITTED),
        (RecursionError("x"), Reason.UNREADABLE),
        (MemoryError("x"), Reason.UNREADABLE),
        (OSError(5, "x"), Reason.UNREADABLE),
    ],
)
def test_failing_source_costs_itself_alone(error: Exception, reason: Reason) -> None:
    """Whatever it raises."""
    with running() as process:
        found = look(rank_of(process.pid), Looker(sources(fds=fail(error)), ThreadPool(), Notes()))
    assert isinstance(found.fds, Missing)
    assert found.fds.reason is reason
    assert isinstance(found.stacks, Stacks)
    if reason is Reason.NOT_PERMITTED:
        assert "do this" in found.fds.detail


def test_source_that_never_comes_back() -> None:
    """It is late; the others are not, nor is the next look at another rank."""
    gate, pool = threading.Event(), ThreadPool()
    looker = Looker(sources(fds=lambda question: gate.wait(60)), pool, Notes())
    with running() as one:
        begun = time.perf_counter()
        for _ in range(2):
            found = look(rank_of(one.pid), looker, seconds=1.0)
            assert isinstance(found.fds, Missing)
            assert found.fds.reason is Reason.TIMED_OUT
            assert isinstance(found.process, Process)
        assert time.perf_counter() - begun < 30
        assert pool.abandoned == 1
        gate.set()


def test_beats_stand_around_everything_else() -> None:
    """What we do to a process lies between them, and is none of its own progress."""
    seen: list[int] = []
    notes = Notes()
    with running() as process:
        rank = rank_of(process.pid)
        work = {name: lambda question: seen.append(time.time_ns()) or Stacks() for name in ("stacks", "fds")}
        work["fds"] = lambda question: seen.append(time.time_ns()) or Fds(total=0)
        found = look(rank, Looker(sources(**work), ThreadPool(), notes))
    assert isinstance(found.process, Process)
    before, after = found.process.before, found.process.after
    assert before is not None
    assert after is not None
    assert before.at_ns < min(seen)
    assert max(seen) < after.at_ns
    assert notes.beats == [(before, after)]


def test_sleeping_process_has_not_moved_between_two_looks() -> None:
    """Neither did our stopping it count."""
    pool = ThreadPool()
    looker = Looker(make_sources(find_program("py-spy"), pool, Memory()), pool, Notes())
    with running() as process:
        rank = rank_of(process.pid)
        looks = [look(rank, looker) for _ in range(3)]
    processes = [found.process for found in looks if isinstance(found.process, Process)]
    for one, next_one in pairwise(processes):
        assert one.after is not None
        assert next_one.before is not None
        assert one.after.main_switches == next_one.before.main_switches
        assert one.after.cpu_seconds == next_one.before.cpu_seconds


def test_growth_of_a_log_is_seen_in_the_beats(tmp_path: Path) -> None:
    """Only of a log that the rank alone writes."""
    log = tmp_path / "log"
    with open(log, "w") as file, running(READY + "time.sleep(600)\n", stdout=file, wait=False) as process:
        log.write_text("ready\nstep 1\n")
        found = look(rank_of(process.pid), Looker(sources(), ThreadPool(), Notes()))
    assert isinstance(found.process, Process)
    assert found.process.before is not None
    assert found.process.before.log_bytes == 13


def side_by_side(looker: Looker, *questions: LookDepth) -> list[RankSnapshot]:
    """Look at one rank with all these questions at once."""
    with running() as process, ThreadPoolExecutor(len(questions)) as callers:
        rank = rank_of(process.pid)
        return list(callers.map(lambda question: look(rank, looker, question), questions))


def test_two_callers_share_one_look() -> None:
    """The second gets what the first gets. Another question waits for its turn: nobody is stopped by two at once."""
    inside: list[str] = []
    most: list[int] = []

    def slow(question: LookDepth) -> Stacks:
        inside.append(question.stacks)
        most.append(len(inside))
        time.sleep(0.3)
        inside.remove(question.stacks)
        return Stacks(native=question.stacks == "native")

    looker = Looker(sources(stacks=slow), ThreadPool(), Notes())
    assert len({id(found) for found in side_by_side(looker, *[PLAIN] * 4)}) == 1
    assert most == [1]
    found = side_by_side(looker, PLAIN, LookDepth("native"), LookDepth("native", window=9))
    assert (max(most), len(most), len({id(each) for each in found})) == (1, 4, 3)


def test_unexpected_error_names_its_kind() -> None:
    """For whoever has to mend it."""
    assert "ZeroDivisionError" in missing_for("fds", ZeroDivisionError("x")).detail
