"""Marks of every rank in each beat: one that cannot be read costs nothing, and one that blocks us is left alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agent.deadline import Deadline, ThreadPool
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.look.mark_beats import MarkBeats
from agent.proc.procfs import ProcFs
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.memory.marks import GroupMark, MarkReader
from shared.missing import Reason
from shared.wire.snapshot import Identity

WORLD = GroupMark("0", "default_pg", 7, None, 6, "gloo:all_reduce", 10**18)


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
