"""What is remembered of a rank's marks: since when each group is where it is, and nothing without bounds."""

from agent.look.mark_ring import MarkRing
from agent.sources.recorder.memory.marks import GroupMark

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
