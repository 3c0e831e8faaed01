"""Ranks that poll a lock file: their wakes are no progress, and whoever holds the lock is the one to ask."""

from collections.abc import Mapping

from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.wire.snapshot import Holder, NodeSnapshot, PolledLock
from shared.wire.stacks import Frame
from tests.build.jobs.four_ranks import AWAY, RANKS
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import USER, WORLD, Collective, Job, Seen, Stay, live_looks

BATON = Frame("FileBaton.wait", "/env/lib/python3.11/site-packages/torch/utils/file_baton.py", 50)
POLLS = Seen((USER, BATON), switches_per_second=10.0, cpu_share=0.01)
PATH = "/home/ada/.cache/torch_extensions/fused/lock"
ABANDONED = PolledLock(path=PATH, file_system="ext4", abandoned=True)


def held_by(*pids: int, **more: object) -> PolledLock:
    """A lock that these processes hold."""
    return PolledLock.model_validate(
        {"path": PATH, "holders": tuple(Holder(pid=pid, name="python") for pid in pids), **more}
    )


def polled(lock: PolledLock | None, others: Mapping[int, Seen] | None = None, *, apart: float = 6.0) -> Diagnosis:
    """Four ranks, after a few operations, of which all but the `others` poll the lock; no recorder answers."""
    seen = {rank: (others or {}).get(rank, POLLS) for rank in RANKS}
    job = Job({rank: [*[Collective(WORLD)] * 4, Stay()] for rank in RANKS})
    looks: list[NodeSnapshot] = live_looks(job, seen, interval_seconds=apart, recorder=False)
    for rank in RANKS:
        if BATON in seen[rank].frames:
            looks = with_rank(looks, rank, polled_lock=lock)
    return judged(looks)


def pid_of(rank: int) -> int:
    """The process id that the simulation gives a rank."""
    looks = live_looks(Job({0: [Stay()]}), {0: Seen()})
    pid = looks[0].ranks[0].identity.pid
    assert pid is not None
    return pid + rank


def test_a_lock_that_nobody_holds() -> None:
    """Ten wakes a second are no progress: all hang, and the lock is shown and may be removed."""
    found = polled(ABANDONED)
    (finding,) = found.findings
    assert (found.verdict, finding.kind, finding.cause) == (Verdict.HUNG, Kind.STUCK_TOGETHER, Cause.COMPILE)
    assert (finding.culprits, finding.victims, finding.certainty) == ((), "0-3", Certainty.SUPPORTED)
    assert "nobody holds anymore" in found.headline
    assert finding.next_steps[0].command == f"rm -- {PATH}"


def test_a_holder_that_is_at_work() -> None:
    """A build takes its time, and all others wait for it rightly."""
    found = polled(held_by(pid_of(0)), {0: Seen((USER,), cpu_share=0.9)})
    assert (found.verdict, found.state) == (Verdict.NOT_HUNG, "running")
    assert f"ranks 1-3 wait for the lock file {PATH}, which rank 0 holds while it is at work" in found.headline


def test_a_holder_that_stands_still() -> None:
    """The rank that holds the lock is what the others wait for, not they."""
    found = polled(held_by(pid_of(0)), {0: AWAY})
    (finding,) = found.findings
    assert (finding.culprit_ranks, finding.victims) == ((0,), "1-3")


def test_a_holder_that_waits_for_those_who_poll() -> None:
    """A lock that is kept over a collective: those who poll it are not to blame for being late."""
    found = polled(held_by(pid_of(0)), {0: Seen()})
    (finding,) = found.findings
    assert (finding.culprit_ranks, finding.victims) == ((0,), "1-3")
    assert "a deadlock between the lock and the group" in finding.summary
    assert finding.certainty is not Certainty.PROVEN


def test_a_holder_that_is_no_rank_or_on_another_node() -> None:
    """It may be at work: a minute's patience first, and nobody is named."""
    for lock in (held_by(999_999), held_by(remote=True, file_system="nfs4"), PolledLock(), None):
        early, late = polled(lock), polled(lock, apart=61.0)
        assert early.verdict is Verdict.CANNOT_TELL
        (finding,) = late.findings
        assert (finding.culprits, finding.victims) == ((), "0-3")
        assert all(step.command is None or not step.command.startswith("rm") for step in finding.next_steps)


def test_a_poller_whose_child_works() -> None:
    """It polls, and something it has started works: that is progress."""
    busy = Seen((USER, BATON), switches_per_second=10.0, cpu_share=0.5)
    assert polled(ABANDONED, dict.fromkeys(RANKS, busy)).verdict is Verdict.NOT_HUNG


def test_an_agent_that_has_watched_them_wake_changes_nothing() -> None:
    """It notes each wake as progress: of one that polls it is none."""
    seen = dict.fromkeys(RANKS, POLLS)
    looks = live_looks(Job({rank: [Stay()] for rank in RANKS}), seen, interval_seconds=6.0, recorder=False)
    for rank in RANKS:
        looks = with_rank(looks, rank, polled_lock=ABANDONED, idle_for_seconds=0.0, watched_for_seconds=900.0)
    assert judged(looks).verdict is Verdict.HUNG
