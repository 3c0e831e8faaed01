"""Ranks that poll a lock file: their wakes are no progress, and whoever holds the lock is the one to ask."""

from collections.abc import Mapping, Sequence

import pytest

from collector.align.expected import Expected
from collector.looks.next_looks import pids_to_look_deeper
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.wire.snapshot import Fds, Holder, MountUse, NodeSnapshot, NotableFile, PolledLock, Process, Syscall
from shared.wire.stacks import Frame, Stacks
from tests.build.jobs.four_ranks import AWAY, RANKS, looks_without
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import USER, WORLD, Collective, Job, Seen, Stay, Step, live_looks

BATON = Frame("FileBaton.wait", "/env/lib/python3.11/site-packages/torch/utils/file_baton.py", 50)
POLLS = Seen((USER, BATON), switches_per_second=10.0, cpu_share=0.01)
PATH = "/home/ada/.cache/torch_extensions/fused/lock"
ABANDONED = PolledLock(path=PATH, file_system="ext4", abandoned=True)

DATABASE = "/scratch/metrics.db"
IN_SQLITE = (
    USER,
    Frame("sqlite3_step", "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6", 0, native=True),
    Frame("0x7f2a392c11b5", "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6", 0, native=True),
    Frame("usleep", "/usr/lib/x86_64-linux-gnu/libc.so.6", 0, native=True),
)
SLEEPS = Seen((USER,), switches_per_second=10.0)
DEEPER = Seen(IN_SQLITE, switches_per_second=10.0)


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


def test_a_holder_whose_device_waits_for_those_who_poll() -> None:
    """On NCCL a rank stands where it waits for its device, and its record tells that this lacks the others."""
    synchronize = Frame("synchronize", "/env/lib/python3.11/site-packages/torch/cuda/__init__.py", 1281)
    job = Job({rank: [Collective(WORLD)] * (4 if rank == 0 else 5) for rank in RANKS})
    looks = live_looks(job, {0: POLLS, **{rank: Seen((USER, synchronize)) for rank in RANKS[1:]}})
    (finding,) = judged(with_rank(looks, 0, polled_lock=held_by(pid_of(1)))).findings
    assert (finding.culprit_ranks, finding.cause) == ((1,), Cause.COMMUNICATION)
    assert "which rank 1 holds while it waits in all_reduce: a deadlock" in finding.summary


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


def open_and_locked_by(*pids: int, **more: object) -> PolledLock:
    """A file that a rank has open and these processes have locked."""
    return held_by(*pids, path=DATABASE, on_open_file=True, **more)


def one_sleeps(
    lock: PolledLock | None,
    *,
    seen: Seen = SLEEPS,
    deeper: bool = False,
    apart: float = 6.0,
    hosts: Mapping[str, str] | None = None,
    locked_by: int | None = None,
) -> Diagnosis:
    """Rank 3 sleeps, others wait for it in a collective; it has a file open that others have locked.

    `deeper`: in the second look its native frames were read, and show SQLite. `locked_by`: the rank that shows, by its
    own descriptors, that it has locked the file.
    """
    looks = looks_without({3: seen}, interval_seconds=apart, recorder=False, hosts=hosts)
    looks = with_rank(looks, 3, polled_lock=lock)
    if locked_by is not None:
        fds = Fds(total=1, notable_files=(NotableFile(fd=7, path=DATABASE, locked=True),))
        looks = with_rank(looks, locked_by, fds=fds)
    if deeper:
        read = looks_without({3: DEEPER}, interval_seconds=apart, recorder=False, hosts=hosts)
        stacks = next(rank.stacks for look in read for rank in look.ranks if rank.identity.rank == 3)
        assert isinstance(stacks, Stacks)
        newest = max(look.taken_at_ns for look in looks)
        looks = [
            with_rank([look], 3, stacks=stacks.model_copy(update={"native": True}))[0]
            if look.taken_at_ns == newest
            else look
            for look in looks
        ]
    return judged(looks)


def test_sqlite_waits_for_the_rank_that_has_locked_the_database() -> None:
    """Its native frames tell what it sleeps for; the rank that keeps the lock over a collective is the cause."""
    found = one_sleeps(open_and_locked_by(pid_of(0)), deeper=True)
    (finding,) = found.findings
    assert (finding.culprit_ranks, finding.victims) == ((0,), "1-3")
    assert f"rank 3 waits for the lock on {DATABASE}, which rank 0 holds while it waits in" in finding.summary
    assert finding.next_steps[0].text == f"have rank 0 let go of the lock on {DATABASE} before waiting for other ranks"


def test_native_frames_are_asked_of_a_sleeper_whose_file_others_have_locked() -> None:
    """It wakes, and is asked all the same; one that wakes for no such reason is not."""
    for lock, asked in ((open_and_locked_by(pid_of(0)), True), (None, False), (open_and_locked_by(), False)):
        looks = with_rank(looks_without({3: SLEEPS}, recorder=False), 3, polled_lock=lock)
        assert (("node-a", pid_of(3)) in pids_to_look_deeper(looks, Expected())) is asked


def test_one_that_polls_by_hand_is_not_blamed() -> None:
    """No frame tells that it waits for the lock, and nothing that it does not."""
    lock = open_and_locked_by(pid_of(0))
    assert one_sleeps(lock).verdict is Verdict.CANNOT_TELL
    (finding,) = one_sleeps(lock, apart=601.0).findings
    assert (finding.culprits, finding.certainty) == ((), Certainty.SUSPECTED)
    assert f"rank 3 may wait for the lock on {DATABASE}, which rank 0 holds while it waits in" in finding.summary


def test_one_that_has_the_file_open_and_does_not_poll() -> None:
    """It sleeps for a reason of its own, and who has locked the file is innocent; so is a holder that is no rank."""
    (still,) = one_sleeps(open_and_locked_by(pid_of(0)), seen=AWAY).findings
    (stranger,) = one_sleeps(open_and_locked_by(999_999), apart=601.0).findings
    assert still.culprit_ranks == stranger.culprit_ranks == (3,)
    assert not any("metrics.db" in step.text for step in (*still.next_steps, *stranger.next_steps))


def test_a_holder_that_is_no_rank_is_named_with_its_command() -> None:
    """Where to look is the rank that waits, and whom it waits for stands beside it."""
    lock = open_and_locked_by().model_copy(
        update={"holders": (Holder(pid=999, name="python", command="python export.py --all"),)}
    )
    (finding,) = one_sleeps(lock, deeper=True, apart=61.0).findings
    assert finding.culprit_ranks == (3,)
    assert f"the lock on {DATABASE}, which is held by pid 999 (python export.py --all)" in finding.summary
    assert [(each.who, each.does) for each in finding.chain] == [
        ("ranks 0-2", "wait for rank 3 in all_reduce"),
        ("rank 3", f"waits for the lock on {DATABASE}"),
        ("pid 999 (python export.py --all)", "holds it"),
    ]


def test_a_lock_that_another_node_may_hold_accuses_nobody() -> None:
    """Who holds it cannot be seen from here, and may be a rank that waits for this one."""
    lock = held_by(remote=True, file_system="nfs4")
    (finding,) = one_sleeps(lock, seen=POLLS, apart=61.0).findings
    assert (finding.culprits, finding.certainty) == ((), Certainty.SUSPECTED)
    assert "nobody visible on its node holds: another node may (nfs4)" in finding.summary


def test_a_rank_of_another_node_that_has_locked_the_file() -> None:
    """Its own agent sees that it has: who polls on the first node waits for it."""
    lock = open_and_locked_by(remote=True, file_system="nfs4")
    hosts = {"a": "0-1", "b": "2-3"}
    (finding,) = one_sleeps(lock, seen=POLLS, apart=61.0, hosts=hosts, locked_by=1).findings
    assert finding.culprit_ranks == (1,)
    local = lock.model_copy(update={"remote": False, "file_system": "ext4"})
    (finding,) = one_sleeps(local, seen=POLLS, apart=61.0, hosts=hosts, locked_by=1).findings
    assert finding.culprit_ranks == (3,)


@pytest.mark.parametrize("remote", [True, False])
def test_one_that_sleeps_beside_a_file_that_a_rank_of_another_node_has_locked(remote: bool) -> None:
    """As SQLite does on a file system that nodes share: its own agent sees no lock, and the other one's does."""
    mount = MountUse(point="/scratch", file_system="nfs4", remote=remote)
    own = Fds(total=1, files={7: DATABASE}, mounts=(mount,))
    locked = own.model_copy(update={"notable_files": (NotableFile(fd=7, path=DATABASE, locked=True),)})
    hosts = {"a": "0-1", "b": "2-3"}
    looks = looks_without({3: SLEEPS}, interval_seconds=601.0, recorder=False, hosts=hosts)
    (finding,) = judged(with_rank(with_rank(looks, 3, fds=own), 1, fds=locked)).findings
    assert finding.culprit_ranks == (() if remote else (3,))
    assert ("rank 3 may wait for the lock on /scratch/metrics.db, which rank 1 holds" in finding.summary) is remote


def test_one_that_the_kernel_blocks_for_a_lock() -> None:
    """An older agent tells the holders of such a lock alone."""
    looks = looks_without({3: AWAY}, recorder=False, interval_seconds=6.0)
    process = next(rank.process for rank in looks[0].ranks if rank.identity.rank == 3)
    assert isinstance(process, Process)
    blocked = process.model_copy(
        update={
            "syscall": Syscall(name="flock", fd=7, target=DATABASE),
            "wchan": "locks_lock_inode_wait",
            "lock_holders": (Holder(pid=pid_of(0), name="python"),),
        }
    )
    (finding,) = judged(with_rank(looks, 3, process=blocked)).findings
    assert (finding.culprit_ranks, finding.victims) == ((0,), "1-3")


@pytest.mark.parametrize("recorded", [True, False])
def test_a_holder_that_waits_for_somebody_else_is_held_up_itself(recorded: bool) -> None:
    """It would let go of the lock if that one came: the late rank of its own group, not of those who want the lock."""
    pairs = {"p0": [0, 1], "p1": [2, 3]}
    late: dict[int, Sequence[Step]] = {
        rank: [
            *[Collective("p0" if rank < 2 else "p1")] * 3,
            *([Stay()] if rank % 2 else [Collective(f"p{rank // 2}")]),
        ]
        for rank in RANKS
    }
    seen = {0: Seen(), 1: AWAY, 2: Seen(), 3: POLLS}
    looks = live_looks(Job(late, pairs), seen, interval_seconds=61.0, recorder=recorded)
    found = judged(with_rank(looks, 3, polled_lock=held_by(pid_of(0))))
    assert {rank for finding in found.findings for rank in finding.culprit_ranks} == {1}
    assert any(f"the lock file {PATH}, which rank 0 holds" in each.text for f in found.findings for each in f.evidence)


@pytest.mark.parametrize(("holder", "culprits"), [(0, {0}), (3, {2, 3})])
def test_a_chain_and_a_circle_of_locks(holder: int, culprits: set[int]) -> None:
    """Who waits for a lock with another one in hand is held up by the last of them; in a circle, each by the other."""
    looks = looks_without({2: POLLS, 3: POLLS}, interval_seconds=61.0, recorder=False)
    looks = with_rank(looks, 3, polled_lock=held_by(pid_of(2)))
    found = judged(with_rank(looks, 2, polled_lock=held_by(pid_of(holder), path="/scratch/other.lock")))
    (finding,) = found.findings
    assert {*finding.culprit_ranks} == culprits
    assert found.action is not None
    assert {"in one order" in each for each in (found.action.text, finding.next_steps[0].text)} == {len(culprits) > 1}
    labels = {each.label for each in found.stack_classes if each.ranks == "2-3"}
    assert all("other.lock" in each and " or " in each for each in labels) and labels
