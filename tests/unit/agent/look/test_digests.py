"""What an agent tells unasked: short, bounded whatever ranks write into their memory, and at once on a change."""

import threading

from agent.look.digests import Digests, digest_of
from agent.look.progress_watch import RankProgress
from agent.sources.recorder.memory.marks import GroupMark
from shared.wire.registration import MOST_JOBS, MOST_RANKS, ExitedRank
from shared.wire.snapshot import Exited, Identity

WORLD = GroupMark("0", "default_pg", 7, None, 6, "nccl:all_reduce", 10**18, 600_000)


def rank(number: int, still: float | None = 1.0, *, mark: GroupMark | None = WORLD, **identity: object) -> RankProgress:
    """A rank of a job of eight."""
    named = Identity.model_validate({"job": "demo", "user": "1000", "rank": number, "world_size": 8, **identity})
    return RankProgress(named, still, still, mark, mark is not None)


def exited(number: int, **more: object) -> Exited:
    """A rank of it that has ended."""
    identity = Identity(job="demo", user="1000", rank=number, world_size=8)
    return Exited.model_validate({"pid": 100 + number, "identity": identity, **more})


def test_says_how_far_ranks_are() -> None:
    """In columns, by rank; the timeout is the shortest of those that are waited for."""
    hasty = WORLD._replace(name="1", issued=9, timeout_ms=60_000)
    (job,) = digest_of([rank(1, 33.34), rank(0, mark=hasty), rank(2, None, mark=None)], [exited(3, signal=9)]).jobs
    assert (job.job, job.user, job.world_size, job.timeout_seconds) == ("demo", "1000", 8, 60.0)
    assert (job.ranks, job.still, job.sequence) == ((0, 1, 2), (1.0, 33.3, None), (9, 7, -1))
    assert [job.groups[at] if at >= 0 else None for at in job.group] == ["1", "0", None]
    assert job.exited == (ExitedRank(rank=3, signal=9),) and job.exited[0].abnormally


def test_eight_ranks_take_less_than_a_kilobyte() -> None:
    """Sent twice a minute by each of thousands of nodes."""
    marks = [WORLD._replace(issued=10**7 + n, name=str(n)) for n in range(8)]
    digest = digest_of([rank(1000 + n, 12345.6, mark=marks[n]) for n in range(8)], [])
    assert len(digest.model_dump_json()) < 1024


def test_ranks_that_spin_and_ranks_that_timed_out() -> None:
    """By the processes that use the GPUs, and by what the ranks' logs tell."""
    waits = rank(1, 40.0, pid=42)
    told = RankProgress(waits.identity, 40.0, 40.0, WORLD, True, timed_out=True)
    (job,) = digest_of([rank(0, pid=41), told], [], spinning=frozenset({42})).jobs
    assert (job.spinning, job.timed_out) == ((1,), (1,))


def test_is_bounded_whatever_ranks_write() -> None:
    """Names without end, numbers that no rank has, jobs without number: what does not fit is left out."""
    odd = [
        rank(0, job="x" * 300),
        rank(-5, job="negative"),
        rank(2**40, job="large"),
        rank(0, job="size", world_size=-1),
        rank(0, job="long group", mark=WORLD._replace(name="g" * 10_000, issued=2**70, timeout_ms=2**62)),
        *(rank(n, job="crowded") for n in range(2 * MOST_RANKS)),
        *(rank(n, job="groups", mark=WORLD._replace(name=str(n))) for n in range(100)),
        *(rank(0, job=f"job {n}") for n in range(3 * MOST_JOBS)),
    ]
    told = {job.job: job for job in digest_of(odd, [exited(2**40)]).jobs}
    assert len(told) <= MOST_JOBS and not told.keys() & {"x" * 300, "negative", "large", "size"}
    assert told["long group"].sequence == (-1,) and len(told["long group"].groups[0]) == 64
    assert len(told["crowded"].ranks) == MOST_RANKS
    assert told["groups"].group.count(-1) == 68


def test_job_that_has_just_ended_is_told_after_many_that_did() -> None:
    """A node that many small jobs ran on: they are told of until their ranks are forgotten, and are not alone there."""
    gone = []
    for number in range(MOST_JOBS + 5):
        one = exited(0, signal=9)
        assert one.identity is not None
        identity = one.identity.model_copy(update={"job": f"job-{number}"})
        gone.append(one.model_copy(update={"identity": identity, "gone_by_ns": number}))
    told = [job.job for job in digest_of([rank(0)], gone).jobs]
    assert told[:2] == ["demo", f"job-{MOST_JOBS + 4}"] and len(told) == MOST_JOBS


def test_tells_the_newest_attempt_alone() -> None:
    """What is left over from before a restart belongs to no job that runs."""
    (job,) = digest_of([rank(0, attempt=1), rank(1, attempt=2)], [exited(0)]).jobs
    assert (job.attempt, job.ranks, job.exited) == (2, (1,), ())


class Ranks:
    """A watch of ranks that a test sets."""

    def __init__(self, *living: RankProgress) -> None:
        self.living = living

    def progress(self) -> tuple[tuple[RankProgress, ...], tuple[Exited, ...]]:
        """As `Watch.progress`."""
        return self.living, ()


def test_wakes_who_waits_when_a_state_changes() -> None:
    """A rank that has stood for a while, goes on, comes or goes; not one that has stood a little longer."""
    ranks = Ranks(rank(0), rank(1))
    digests = Digests(ranks)  # type: ignore[arg-type]
    versions = []
    for living in (
        (rank(0, 1.0), rank(1, 3.0)),
        (rank(0, 4.0), rank(1, 0.5)),
        (rank(0, 21.0), rank(1, 0.5)),
        (rank(0, 26.0), rank(1, 0.5)),
        (rank(0, 0.1), rank(1, 0.5)),
        (rank(0, 0.1),),
    ):
        ranks.living = living
        digests.renew()
        versions.append(digests.newest()[1])
    assert versions == [1, 1, 2, 2, 3, 4]


def test_waiting_ends_with_a_change_or_a_stop() -> None:
    """Long before its time is up."""
    ranks, stop = Ranks(rank(0)), threading.Event()
    digests = Digests(ranks)  # type: ignore[arg-type]
    digests.renew()

    def change() -> None:
        ranks.living = (rank(0, 50.0),)
        digests.renew()

    def end() -> None:
        stop.set()
        digests.wake()

    for happens in (change, end):
        known = digests.newest()[1]
        waiter = threading.Thread(target=digests.wait, args=(300.0,), kwargs={"known": known, "stop": stop})
        waiter.start()
        happens()
        waiter.join(60.0)
        assert not waiter.is_alive()
