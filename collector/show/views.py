"""One aspect of a job over all its ranks: stacks, file descriptors, logs, sequence marks. Values for the API."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected, Unanswered
from collector.align.groups.process_groups import line_up
from collector.align.groups.sequence_tables import GroupTable, group_tables
from collector.align.job_owner import one_users
from collector.align.logs.file_ends import last_lines, last_looks, left_logs, logs_of
from collector.align.stacks.other_stacks import OtherStacks, other_stacks
from collector.align.stacks.stack_classes import StackNode, merge_tree, stack_classes
from collector.checks.all import check_job
from collector.judge.records.disputes import disputes_of
from shared.answer.checks import Check
from shared.answer.diagnosis import Contract, StackClass
from shared.answer.log_line import LogLine as LogLine
from shared.missing import Missing
from shared.rank_sets import FoldedRanks, fold
from shared.wire.log_events import LogEvent
from shared.wire.setup import Setup
from shared.wire.snapshot import Fds, NodeSnapshot, RankSnapshot
from shared.wire.stacks import Stacks


class RankGap(Contract):
    """A rank that did not give what was asked for."""

    rank: int
    host: str | None = None
    missing: Missing


class View(Contract):
    """What all views have in common."""

    job: str | None = None
    unanswered: tuple[Unanswered, ...] = Field(default=(), description="Agents that did not answer.")
    gaps: tuple[RankGap, ...] = Field(default=(), description="Ranks that did not give it, and why.")


class TreeView(View):
    """Stacks merged into prefix trees: of each rank the thread that trains, which is usually the main one."""

    tree: tuple[StackNode, ...]
    others: tuple[OtherStacks, ...] = Field(
        default=(), description="Other threads and child processes. A survey of a large job has no children."
    )


class ClassesView(View):
    """Ranks grouped by where they are."""

    classes: tuple[StackClass, ...]


class SequencesView(View):
    """How far each rank has got in each process group."""

    groups: tuple[GroupTable, ...]


class RankFds(Contract):
    """Open file descriptors of one rank."""

    rank: int
    host: str | None = None
    pid: int | None = None
    fds: Fds


class FdsView(View):
    """Open file descriptors, rank by rank."""

    ranks: tuple[RankFds, ...]


class LogsView(View):
    """The ends of all ranks' logs, and what was recognised in them."""

    lines: tuple[LogLine, ...]
    events: tuple[LogEvent, ...]


class ChecksView(View):
    """What is wrong or risky in how the job was started, the worst first."""

    looked_at: FoldedRanks = Field(description="Ranks whose settings were read; the others are among the gaps.")
    checks: tuple[Check, ...]


def only(
    snapshots: Sequence[NodeSnapshot], expected: Expected, *, ranks: frozenset[int] | None
) -> tuple[NodeSnapshot, ...]:
    """Return the snapshots with nothing but `ranks` of one user's job; None: all."""
    job = expected.job
    return tuple(
        snapshot.model_copy(update={"ranks": tuple(r for r in snapshot.ranks if _wanted(r, job, ranks))})
        for snapshot in one_users(snapshots, expected).snapshots
    )


def native_only(snapshots: Sequence[NodeSnapshot]) -> tuple[NodeSnapshot, ...]:
    """Leave out the plain look at each process of which there is a native one."""
    deep = {(each.host, rank.identity.pid) for each in snapshots for rank in each.ranks if _is_native(rank)}
    return tuple(
        each.model_copy(
            update={
                "ranks": tuple(
                    rank for rank in each.ranks if _is_native(rank) or (each.host, rank.identity.pid) not in deep
                )
            }
        )
        for each in snapshots
    )


def _is_native(rank: RankSnapshot) -> bool:
    return isinstance(rank.stacks, Stacks) and rank.stacks.native


def view_tree(snapshots: Sequence[NodeSnapshot], expected: Expected) -> TreeView:
    """Merge the stacks of all ranks."""
    return TreeView(
        **in_common(snapshots, expected, "stacks"),
        tree=merge_tree(snapshots),
        others=other_stacks(snapshots),
    )


def view_classes(snapshots: Sequence[NodeSnapshot], expected: Expected) -> ClassesView:
    """Group the ranks by their stacks."""
    return ClassesView(
        **in_common(snapshots, expected, "stacks"),
        classes=stack_classes(snapshots),
    )


def view_sequences(snapshots: Sequence[NodeSnapshot], expected: Expected) -> SequencesView:
    """Tabulate every process group that a recorder mentions."""
    roster = account_for_ranks(snapshots, Expected())
    groups = line_up(roster)
    return SequencesView(
        **in_common(snapshots, expected, "recorder"),
        groups=group_tables(
            groups, roster, {each.group.ref: each.sequence for each in disputes_of(groups, roster.traces)}
        ),
    )


def view_checks(snapshots: Sequence[NodeSnapshot], expected: Expected) -> ChecksView:
    """Check how the job was started."""
    looks = (rank for snapshot in snapshots for rank in snapshot.ranks)
    return ChecksView(
        **in_common(snapshots, expected, "setup"),
        looked_at=fold(look.identity.rank for look in looks if isinstance(look.setup, Setup)),
        checks=check_job(snapshots, expected),
    )


def view_fds(snapshots: Sequence[NodeSnapshot], expected: Expected) -> FdsView:
    """List what each rank has open."""
    ranks = tuple(
        RankFds(rank=rank.identity.rank, host=host, pid=rank.identity.pid, fds=rank.fds)
        for host, rank in last_looks(snapshots)
        if isinstance(rank.fds, Fds)
    )
    return FdsView(**in_common(snapshots, expected, "fds"), ranks=ranks)


def view_logs(snapshots: Sequence[NodeSnapshot], expected: Expected, *, lines: int) -> LogsView:
    """Merge the last `lines` lines of each file of each rank, by rank; of a file that several write, once."""
    every = logs_of(snapshots)
    files = [*left_logs(snapshots, expected.job), *((host, rank, logs.files) for host, rank, logs in every)]
    events = {(host, e.path, e.number, e.rank, e.text): e for host, _, logs in every for e in logs.events}
    return LogsView(
        **in_common(snapshots, expected, "logs"),
        lines=tuple(last_lines(files, lines)),
        events=tuple(events.values()),
    )


def _wanted(look: RankSnapshot, job: str | None, ranks: frozenset[int] | None) -> bool:
    identity = look.identity
    of_job = job is None or identity.job is None or identity.job == job
    return of_job and (ranks is None or identity.rank in ranks)


def in_common(snapshots: Iterable[NodeSnapshot], expected: Expected, source: str) -> dict[str, Any]:
    """Return the fields that all views have: the job, who is silent, and whose last look has nothing of `source`."""
    looks = ((host, look, getattr(look, source)) for host, look in last_looks(snapshots))
    gaps = tuple(
        RankGap(rank=look.identity.rank, host=host, missing=given)
        for host, look, given in looks
        if isinstance(given, Missing)
    )
    return {"job": expected.job, "unanswered": expected.unanswered, "gaps": gaps}
