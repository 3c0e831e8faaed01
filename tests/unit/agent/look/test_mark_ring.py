"""Marks of ranks: read in each beat from whoever does not block us, and remembered: since when each group is where."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agent.deadline import Deadline, ThreadPool
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.look.mark_beats import MarkBeats
from agent.look.mark_ring import MarkRing
from agent.proc.procfs import ProcFs
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.memory.marks import GroupMark, MarkReader
from shared.missing import Reason
from shared.wire.snapshot import Identity

WORLD = GroupMark("0", "default_pg", 7, None, 6, "gloo:all_reduce", 10**18)


def ring(*notes: tuple[float, tuple[GroupMark, ...]]) -> MarkRing:
    """Return one that has taken in these notes."""
    made = MarkRing()
    for at, marks in notes:
        made.note(at, marks)
    return made


def test_first_reading_is_no_step() -> None:
    """The rank may have stood there for long."""
    made = MarkRing()
    assert made.told() is None
    assert not made.note(100.0, (WORLD,))
    assert not made.note(105.0, (WORLD,))
    assert made.still_since == 100.0
    pending = WORLD._replace(issued_ns=60 * 10**9)
    done = WORLD._replace(name="1", completed=7, issued_ns=50 * 10**9)
    assert ring((100.0, (pending, done))).still_since == 60.0
    assert ring((100.0, (pending, done._replace(issued_ns=70 * 10**9)))).still_since == 100.0


def test_whatever_goes_on_is_a_step() -> None:
    """What is issued, started, completed, or used for the first time."""
    steps = [
        WORLD._replace(issued=8, issued_ns=WORLD.issued_ns + 1),
        WORLD._replace(started=7),
        WORLD._replace(completed=7),
        WORLD._replace(issued=1, completed=0, issued_ns=WORLD.issued_ns + 1),  # a recorder that was reset
    ]
    for step in steps:
        made = ring((100.0, (WORLD,)))
        assert made.note(105.0, (step,))
        assert made.still_since == 105.0
    made = ring((100.0, (WORLD,)))
    assert made.note(105.0, (WORLD, WORLD._replace(name="1", issued_ns=5)))


def test_reading_that_is_one_operation_behind_is_no_step() -> None:
    """It was read while the rank wrote; the next one sees the same as the one before."""
    made = ring((100.0, (WORLD,)))
    assert not made.note(105.0, (WORLD._replace(issued=6, completed=5, issued_ns=WORLD.issued_ns - 1),))
    assert not made.note(110.0, (WORLD,))
    told = made.told()
    assert told is not None
    assert (told.groups[0].sequence, told.groups[0].since_ns, told.read_at_ns) == (7, 100 * 10**9, 110 * 10**9)


def test_pending_is_told_by_the_group_that_issued_last() -> None:
    """One of no known status, or of sends alone, says nothing."""
    done = WORLD._replace(name="1", completed=7, issued_ns=WORLD.issued_ns + 1)
    assert ring((1.0, (WORLD,))).is_pending
    assert not ring((1.0, (WORLD, done))).is_pending
    assert not ring((1.0, (WORLD._replace(completed=None),))).is_pending
    assert not ring((1.0, (WORLD._replace(issued=None),))).is_pending
    assert not MarkRing().is_pending


def test_longest_pause_is_that_of_ten_minutes() -> None:
    """Between steps that were seen."""
    notes = [(at, (WORLD._replace(issued_ns=int(at)),)) for at in (0.0, 10.0, 50.0, 60.0, 80.0)]
    assert ring(*notes).longest_pause == 40.0
    assert ring(*notes[:2]).longest_pause is None
    assert ring(*notes, (655.0, (WORLD,))).longest_pause == 575.0
    assert ring(*notes, (655.0, (WORLD,)), (670.0, (WORLD,))).longest_pause == 575.0


def test_hostile_marks_are_bounded() -> None:
    """Many groups, long texts that cannot be printed, times of any size: what is sent is short and can be."""
    marks = [GroupMark(f"{n}\ud800\n" * 100, "\x1b[2J", n, None, None, "x" * 256, (1 << 63) + n) for n in range(256)]
    told = ring((1.0, tuple(marks))).told()
    assert told is not None
    assert len(told.groups) <= 16
    assert len(told.model_dump_json()) < 16_000
    assert all(each.group.isprintable() and each.description == "?[2J" for each in told.groups)


class Reader(MarkReader):
    """Reads nobody's memory: some processes have none to be read, have ended, or block whoever reads them."""

    def __init__(self, *, mute: int = 0, ended: int = 0, blocked: tuple[int, ...] = ()) -> None:
        super().__init__(RecorderLocator())
        self.read_of: list[int] = []
        self.gate = threading.Event()
        self._mute, self._ended, self._blocked = mute, ended, blocked

    def read(self, procfs: ProcFs, rank: Rank, deadline: Deadline) -> tuple[GroupMark, ...]:
        """Return the same marks of everybody else."""
        pid = rank.stat.pid
        self.read_of.append(pid)
        if pid in self._blocked:
            self.gate.wait(60)
        if pid == self._ended:
            raise Gone("it has exited")
        if pid == self._mute:
            raise Unavailable(Reason.NOT_FOUND, "no flight recorder")
        return (WORLD,)


def ranks(*pids: int) -> list[Rank]:
    """Return ranks of these process ids."""
    own = ProcFs().stat(threading.get_native_id())
    return [Rank(Identity(rank=n, pid=pid), own._replace(pid=pid), {}, ()) for n, pid in enumerate(pids)]


class Beating:
    """Beats at times that a test chooses."""

    def __init__(self, reader: Reader) -> None:
        self.now = 0.0
        self.taken: list[int] = []
        self.gone: list[int] = []
        self.beats = MarkBeats(ProcFs(), ThreadPool(), reader=reader, clock=lambda: self.now)

    def beat(self, *pids: int, seconds: float = 30.0) -> None:
        """Take one five seconds after the last."""
        self.now += 5.0
        self.beats.beat(
            ranks(*pids),
            Deadline(seconds),
            take=lambda rank, marks: self.taken.append(rank.stat.pid),
            gone=lambda rank: self.gone.append(rank.stat.pid),
        )


def test_rank_without_a_recorder_is_read_ever_less_often() -> None:
    """The others are read in every beat, and who has ended is told."""
    reader = Reader(mute=21, ended=22)
    one = Beating(reader)
    for _ in range(60):
        one.beat(20, 21, 22)
    assert one.taken == [20] * 60
    assert one.gone == [22] * 60
    assert 4 <= reader.read_of.count(21) <= 8


@pytest.mark.parametrize("blocked", [(21,), (21, 22, 23, 24)])
def test_ranks_that_block_their_reader_are_left_out(blocked: tuple[int, ...]) -> None:
    """From the beat on that finds each blocked still; the others are read again. Each costs its share of time."""
    reader = Reader(blocked=blocked)
    one = Beating(reader)
    with opened(reader):
        while one.taken.count(25) < 2:
            one.beat(20, *blocked, 25, seconds=1.0)
        assert [reader.read_of.count(pid) for pid in blocked] == [1] * len(blocked)
        assert one.taken.count(20) > one.taken.count(25)


@contextmanager
def opened(reader: Reader) -> Iterator[None]:
    """Let blocked readers go in the end."""
    try:
        yield
    finally:
        reader.gate.set()
