"""The verdict on what lies in files: a bundle, or a directory of snapshots, dumps and logs."""

import time
from pathlib import Path

from collector.align.expected import Expected
from collector.files.read_directory import Recorded, read_recorded
from collector.files.tree.walk import DEFAULT_BOUNDS, Bounds
from collector.gather.jobs import choose_job, neighbours_of
from collector.gather.judge_and_stamp import judge
from collector.gather.namesakes import lists_apart, user_of
from collector.gather.swept import Sweep
from shared.missing import Missing
from shared.wire.snapshot import NodeSnapshot, RankList


def diagnose_directory(path: Path, *, job: str | None = None, bounds: Bounds = DEFAULT_BOUNDS) -> Sweep:
    """Read everything below `path` and judge it; blocks while it reads.

    Raises NotFound where there is nothing or no such job, InvalidInput where several jobs are there and none is named.
    """
    began = time.monotonic()
    recorded = read_recorded(path, bounds=bounds)
    expected = expect(recorded, job)
    diagnosis = judge(recorded.snapshots, expected)
    took = round(time.monotonic() - began, 3)
    return Sweep(
        recorded.snapshots, expected, diagnosis.model_copy(update={"took_seconds": took, "read": recorded.read})
    )


def expect(recorded: Recorded, job: str | None) -> Expected:
    """Return the question to ask of what was read. A bundle says what was asked when it was made."""
    asked = Expected() if recorded.manifest is None else recorded.manifest.expected
    lists = tuple(_who(snapshot) for snapshot in recorded.snapshots)
    named = any(identity.job is not None for each in lists for identity in each.ranks)
    if job is None and asked.job is not None:
        job = asked.job
    elif named:
        job = choose_job(job, lists, some_silent=_some_nameless(recorded.snapshots))
    unreadable: tuple[Missing, ...] = (*asked.unreadable, *recorded.missing)
    user = asked.user if asked.job is not None and asked.job == job else user_of(job, lists)
    neighbours = asked.neighbours or neighbours_of(job, lists_apart(lists, job, user))
    return asked.model_copy(update={"job": job, "user": user, "unreadable": unreadable, "neighbours": neighbours})


def _who(snapshot: NodeSnapshot) -> RankList:
    ranks = tuple(rank.identity for rank in snapshot.ranks)
    return RankList(host=snapshot.host or "", ranks=ranks, exited=snapshot.exited)


def _some_nameless(snapshots: tuple[NodeSnapshot, ...]) -> bool:
    """Bare files do not say which job they are of, so a job that is asked for may be theirs."""
    return any(rank.identity.job is None for snapshot in snapshots for rank in snapshot.ranks)
