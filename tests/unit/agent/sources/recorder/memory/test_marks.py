"""Marks of real processes that have built a recorder: what is new is read, what was seen is remembered, in bounds."""

import os

import pytest

from agent.deadline import Deadline
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from agent.proc.memory.torch_layouts import read_layouts
from agent.sources.recorder.memory.marks import _MOST_GROUPS, GroupMark, _merged, _read, _Recorder
from tests.build.processes.recorder_image import Operation, RecorderImage

LATEST = read_layouts().layouts[-1]


def an_image(operations: list[Operation], statuses: dict[int, tuple[int, int, int]]) -> tuple[RecorderImage, int]:
    """Make a recorder with these operations."""
    image = RecorderImage(LATEST)
    return image, image.recorder(operations, most=5000, statuses=statuses)


def read(image: RecorderImage, address: int, known: _Recorder | None = None) -> tuple[_Recorder, dict[str, GroupMark]]:
    """Read the marks of an image, remembering what is known."""
    with image.memory() as memory:
        found, statuses = _read(memory, address, LATEST, known)
    return found, {mark.description: mark for mark in _merged(found.newest, statuses)}


def in_pairs(count: int) -> list[Operation]:
    """Operations of the world, the first one of a pair of ranks."""
    pair = Operation(0, ("1", "tp0"), 1, "gloo:broadcast", 1)
    return [pair, *(Operation(n, sequence=n) for n in range(1, count))]


def test_groups_are_remembered_when_others_have_written_since() -> None:
    """A quiet group has its mark, also where its entries are no longer among the new ones."""
    image, address = an_image(in_pairs(10), {0: (9, 9, 9), 1: (1, 1, 1)})
    known, marks = read(image, address)
    assert set(marks) == {"default_pg", "tp0"}
    image, address = an_image(in_pairs(3000), {0: (2999, 2999, 2998), 1: (1, 1, 1)})
    later, marks = read(image, address, known)
    assert (later.id, set(marks)) == (3000, {"default_pg", "tp0"})
    world, pair = marks["default_pg"], marks["tp0"]
    assert (world.issued, world.completed, pair.issued, pair.operation) == (2999, 2998, 1, "gloo:broadcast")


def test_operation_that_is_recorded_before_its_status() -> None:
    """The later of the two is how far the group is; -1 is nothing yet."""
    image, address = an_image(in_pairs(5), {0: (3, -1, -1)})
    _, marks = read(image, address)
    assert (marks["default_pg"].issued, marks["default_pg"].started, marks["default_pg"].completed) == (4, None, None)


def test_status_that_counts_from_zero() -> None:
    """As the hook's does: three are issued, and two completed."""
    image, address = an_image(
        [Operation(n, name="nccl2:all_reduce", sequence=n + 1) for n in range(3)], {0: (2, -1, 1)}
    )
    _, marks = read(image, address)
    assert (marks["default_pg"].issued, marks["default_pg"].started, marks["default_pg"].completed) == (3, None, 2)


def test_another_recorder_in_the_same_place() -> None:
    """One with fewer entries than were seen is none that was seen."""
    image, address = an_image(in_pairs(10), {})
    known, _ = read(image, address)
    image, address = an_image([Operation(0, ("7", "new"), 7)], {})
    assert set(read(image, address, known)[1]) == {"new"}


def test_groups_that_were_made_again() -> None:
    """One mark for a name: that of the group which was used last."""
    lives = [Operation(n, sequence=n, pg_id=number) for number in (0, 2) for n in range(1 + number, 4 + number)]
    image, address = an_image(lives, {0: (3, 3, 3), 2: (5, 5, 4)})
    with image.memory() as memory:
        found, statuses = _read(memory, address, LATEST, None)
    assert [(mark.issued, mark.completed) for mark in _merged(found.newest, statuses)] == [(5, 4)]


def test_vast_numbers_of_groups() -> None:
    """So many are remembered, with the newest among them."""
    groups = [Operation(n, (str(n), "x" * 4000), n, sequence=1) for n in range(_MOST_GROUPS + 50)]
    image, address = an_image(groups, {})
    known, _ = read(image, address)
    assert len(known.newest) == _MOST_GROUPS
    assert _MOST_GROUPS + 49 in known.newest
    assert max(len(mark.description) for mark in known.newest.values()) < 300


def test_nothing_there() -> None:
    """No memory, no marks."""
    with open("/proc/self/mem", "rb") as file, pytest.raises(Unreadable):
        _read(ProcessMemory(file.fileno(), os.getpid(), Deadline(5)), 8, LATEST, None)
