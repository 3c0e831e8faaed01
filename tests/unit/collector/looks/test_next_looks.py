"""Whose native stacks are asked for: one for all that have the same Python stack, the odd ones first."""

from collector.align.expected import Expected
from collector.looks.next_looks import MOST_DEEP_LOOKS, next_looks, pids_to_look_deeper
from shared.missing import Missing, Reason
from shared.wire.snapshot import Identity, NodeSnapshot, Process, RankSnapshot, Syscall
from shared.wire.stacks import Frame, Stacks, Thread

NOTHING = Missing(source="test", reason=Reason.NOT_ENABLED)


def looked_at(rank: int, line: int, *, at: int, native: bool = False) -> RankSnapshot:
    """One look at a rank that C code holds in a line of the user's."""
    pid = 100 + rank
    frames = (
        Frame("main", "/home/ada/train.py", line),
        *([Frame("wait", "libx.so", 0, native=True)] if native else []),
    )
    return RankSnapshot(
        identity=Identity(rank=rank, host="a", pid=pid, started_at=1.0),
        looked_at_ns=at,
        process=Process(pid=pid, state="S", wchan="futex_do_wait", syscall=Syscall(name="futex")),
        stacks=Stacks(
            pid=pid, native=native, frames=frames, threads=(Thread(tid=pid, frames=tuple(range(len(frames)))),)
        ),
        fds=NOTHING,
        logs=NOTHING,
        recorder=NOTHING,
    )


def two_looks(*lines: int) -> list[NodeSnapshot]:
    """Two looks at as many ranks, each in its line."""
    return [
        NodeSnapshot(
            host="a", taken_at_ns=at, ranks=tuple(looked_at(rank, line, at=at) for rank, line in enumerate(lines))
        )
        for at in (1, 2)
    ]


def test_one_of_each_stack_the_odd_ones_first() -> None:
    """Six ranks in two places: two looks, and the lone rank's comes first."""
    assert pids_to_look_deeper(two_looks(7, 7, 7, 9, 7, 7), Expected()) == (("a", 103), ("a", 100))


def test_many_places_are_bounded() -> None:
    """The crowd is left out before any of those that stand alone."""
    asked = pids_to_look_deeper(two_looks(*[1] * 5, *range(10, 10 + MOST_DEEP_LOOKS)), Expected())
    assert len(asked) == MOST_DEEP_LOOKS
    assert ("a", 100) not in asked


def test_what_is_known_is_not_asked_again() -> None:
    """A native stack of one rank stands for all that have its Python stack."""
    deep = NodeSnapshot(host="a", taken_at_ns=3, whole=False, ranks=(looked_at(1, 7, at=3, native=True),))
    assert pids_to_look_deeper([*two_looks(7, 7, 7, 9), deep], Expected()) == (("a", 103),)


def test_a_job_of_which_no_rank_is_seen_has_nobody_to_look_at() -> None:
    """All agents may answer, and each say that it has none."""
    looks = [NodeSnapshot(host=host, taken_at_ns=1) for host in ("a", "b")]
    after = next_looks(looks, Expected(job="j"))
    assert (after.decided, after.closer, after.native) == (False, (), ())
