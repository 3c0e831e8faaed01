"""Watchdog lines of all ranks, lined up by group: what each rank waited for in vain, and how far it had got.

"Last enqueued N-1" means not past N-1: the counter moves when the NCCL call returns, so that a rank inside the call for
N looks the same as one that never came. A completed count above the enqueued one is memory that was never set.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from collector.align.groups.signature_rules import Facts, facts_of, members_by_sizes
from collector.align.groups.table import Call, GroupView, Lane, Witness
from collector.align.logs.attributed_lines import Statements
from collector.align.logs.group_members import UNTOLD, GroupKey, Membership, key_of
from collector.align.thresholds import INCIDENT_SECONDS
from shared.formats.logs.timestamps import seconds_between
from shared.isolation import costs_itself
from shared.wire.log_events import EventKind, LogEvent
from shared.wire.trace import Signature

_NOT_COMPARABLE = frozenset({"send", "recv", "coalesced"})
"""Their sequence numbers count what one rank sends or receives."""
_NO_COINCIDENCE = 100
"""From this sequence on two groups that wait in the same one are the same."""


@dataclass(frozen=True)
class Timeout:
    """An operation that a rank waited for until its watchdog lost patience."""

    sequence: int
    op: str | None
    sizes: tuple[str | None, str | None]
    """Elements in and out, as the line has them."""
    event: LogEvent

    @property
    def facts(self) -> Facts | None:
        """What must be equal on all members at one sequence."""
        if self.op is None:
            return None
        into, out = (((int(size),),) if size is not None else () for size in self.sizes)
        return facts_of(Signature(op=self.op, backend="", input_sizes=into, output_sizes=out))

    @property
    def is_comparable(self) -> bool:
        return self.op not in _NOT_COMPARABLE

    @property
    def call(self) -> Call:
        """The operation as others may have called it, too."""
        into, out = self.sizes
        sizes = "" if into is None else f" of {into} elements" if into == out else f" of {into} -> {out} elements"
        told = " -> ".join(size for size in self.sizes if size is not None)
        return Call(self.facts, f"{self.op or 'the operation'}{sizes}", self.op, told)

    @property
    def members(self) -> int | None:
        """How many members a group has whose operation gathers from all, or scatters to all, equal parts."""
        into, out = (0 if size is None else int(size) for size in self.sizes)
        return members_by_sizes(self.op, into, out)


@dataclass
class GroupMarks:
    """One group's lines. `stuck` holds each rank's earliest timeout."""

    stuck: dict[int, Timeout] = field(default_factory=dict)
    timeouts: dict[int, dict[int, Timeout]] = field(default_factory=lambda: defaultdict(dict))
    """Rank -> sequence -> what it waited for."""
    enqueued: dict[int, int] = field(default_factory=dict)
    lines: dict[int, LogEvent] = field(default_factory=dict)
    """The line that tells the rank's last enqueued operation."""
    mixed: bool = False
    """Did one rank wait for two operations at one sequence, so that its lines are of two groups?"""


@costs_itself(lambda statements, membership: [])
def tables_by_watchdogs(statements: Statements, membership: Membership) -> list[GroupView]:
    """Return one table for each group; where lines of several carry its name, their numbers mean nothing to others."""
    return [_table(key, marks, membership) for key, marks in _marks_of(statements).items()]


def _table(key: GroupKey, marks: GroupMarks, membership: Membership) -> GroupView:
    mixed = membership.is_mixed(key) or marks.mixed
    stuck = {rank: timeout for rank, timeout in marks.stuck.items() if timeout.is_comparable and not mixed}
    enqueued = {} if mixed else marks.enqueued
    sizes = {timeout.members for timeout in stuck.values()}
    name, description = membership.named(key)
    return GroupView(
        witness=Witness.COUNTERS,
        name=name,
        description=description,
        title=str(key),
        lanes={
            rank: _mark(stuck.get(rank), enqueued.get(rank), marks.lines.get(rank))
            for rank in sorted(stuck.keys() | enqueued.keys())
        },
        size=membership.size_of(key) or (sizes.pop() if len(sizes) == 1 else None),
        least=max(marks.stuck.keys() | enqueued.keys(), default=-1) + 1 if membership.is_world(key) else 0,
        waits_apart=frozenset(marks.stuck.keys() - stuck.keys()),
    )


def _mark(timeout: Timeout | None, enqueued: int | None, line: LogEvent | None) -> Lane:
    if timeout is None:
        return Lane(enqueued, line=line)
    calls = {timeout.sequence: timeout.call}
    return Lane(enqueued, pending=(timeout.sequence,), calls=calls, line=timeout.event)


def _marks_of(statements: Statements) -> dict[GroupKey, GroupMarks]:
    """Return every group's marks, in the order of groups."""
    groups: dict[GroupKey, GroupMarks] = defaultdict(GroupMarks)
    told = list(statements.of_kind(EventKind.WATCHDOG_TIMEOUT, EventKind.DUMP_SIGNAL))
    newest = _newest(event.stamp for _, event in told)
    by_rank: dict[int, list[LogEvent]] = defaultdict(list)
    for rank, event in told:
        if rank is not None and not _is_earlier(event, newest):
            by_rank[rank].append(event)
    for rank, own in by_rank.items():
        groups_at = _groups_by_sequence(own)
        for event in own:
            key = key_of(event) or _key_by_neighbour(event, rank, groups_at)
            if key is not None:
                _add(groups[key], rank, event)
    _put_with_the_told(groups)
    for marks in groups.values():
        marks.stuck.update({rank: told[min(told)] for rank, told in marks.timeouts.items()})
    return dict(sorted(groups.items()))


def _newest(stamps: Iterable[str]) -> str:
    newest = ""
    for stamp in stamps:
        if stamp and (not newest or (seconds_between(newest, stamp) or 0.0) > 0.0):
            newest = stamp
    return newest


def _is_earlier(event: LogEvent, newest: str) -> bool:
    """Is a line of an earlier incident, after which the job was started again into the same log?"""
    apart = seconds_between(event.stamp, newest)
    return apart is not None and apart > INCIDENT_SECONDS


def _put_with_the_told(groups: dict[GroupKey, GroupMarks]) -> None:
    """Lines of one operation that lack their group, where others name one group alone for that same operation."""
    by_operation = sorted(key for key in groups if not key.told and key != UNTOLD)
    for key in by_operation:
        _move(UNTOLD, {operation: {key} for operation in _operations(groups[key])}, groups)
    homes: dict[_Operation, set[GroupKey]] = defaultdict(set)
    for key, marks in groups.items():
        for operation in _operations(marks) if key.told else ():
            homes[operation].add(key)
    for key in (UNTOLD, *by_operation):
        _move(key, homes, groups)
    _move_default(groups)


def _move_default(groups: dict[GroupKey, GroupMarks]) -> None:
    """What apparently the default group waits in, where others name that group for the same sequence.

    Many groups come to a low number, and few to a high one at the same time.
    """
    named = next((key for key in groups if key.told and key.is_default), None)
    if named is None or UNTOLD not in groups:
        return
    reached = {sequence for timeouts in groups[named].timeouts.values() for sequence in timeouts}
    reached = {sequence for sequence in reached if sequence >= _NO_COINCIDENCE}
    left: dict[int, dict[int, Timeout]] = defaultdict(dict)
    for rank, timeouts in groups[UNTOLD].timeouts.items():
        for sequence, timeout in timeouts.items():
            (groups[named].timeouts if sequence in reached else left)[rank].setdefault(sequence, timeout)
    groups[UNTOLD].timeouts = left


_Operation = tuple[int, Facts | None]


def _operations(marks: GroupMarks) -> set[_Operation]:
    return {(t.sequence, t.facts) for timeouts in marks.timeouts.values() for t in timeouts.values()}


def _move(source: GroupKey, homes: Mapping[_Operation, set[GroupKey]], groups: dict[GroupKey, GroupMarks]) -> None:
    """Give the timeouts of one group to the one other group that has the same operation."""
    if source not in groups:
        return
    left: dict[int, dict[int, Timeout]] = defaultdict(dict)
    for rank, timeouts in groups[source].timeouts.items():
        for sequence, timeout in timeouts.items():
            home = homes.get((sequence, timeout.facts), set())
            if len(home) == 1:
                groups[next(iter(home))].timeouts[rank].setdefault(sequence, timeout)
            else:
                left[rank][sequence] = timeout
    groups[source].timeouts = left


def _groups_by_sequence(events: list[LogEvent]) -> dict[str, set[GroupKey]]:
    told: dict[str, set[GroupKey]] = defaultdict(set)
    for event in events:
        key = key_of(event)
        if key is not None and "sequence" in event.fields:
            told[event.fields["sequence"]].add(key)
    return told


def _key_by_neighbour(event: LogEvent, rank: int, groups_at: dict[str, set[GroupKey]]) -> GroupKey | None:
    """The line that tells the operation names no group: one about the same sequence does, in newer torch.

    Else the default group is meant where the place is the rank, and where it is not, whatever group was in an operation
    of that sequence, type and size: more it is not compared with.
    """
    sequence = event.fields.get("sequence")
    if sequence is None or "op" not in event.fields:
        return None
    near = groups_at.get(sequence, set())
    if near:
        return next(iter(near)) if len(near) == 1 else None
    if event.fields.get("group_rank") == str(rank) and not groups_at:
        return UNTOLD
    sizes = " ".join(event.fields.get(name, "") for name in ("numel_in", "numel_out"))
    return GroupKey(f"{event.fields['op']} {sequence} {sizes}", told=False) if sizes.strip() else None


def _add(marks: GroupMarks, rank: int, event: LogEvent) -> None:
    fields = event.fields
    timeout = timeout_of(event)
    if timeout is not None:
        known = marks.timeouts[rank].get(timeout.sequence)
        if known is not None and None not in (known.facts, timeout.facts) and known.facts != timeout.facts:
            marks.mixed = True
        if known is None or known.op is None:
            marks.timeouts[rank][timeout.sequence] = timeout
    if "enqueued" in fields and int(fields["enqueued"]) >= marks.enqueued.get(rank, -1):
        marks.enqueued[rank] = int(fields["enqueued"])
        marks.lines[rank] = event


def timeout_of(event: LogEvent) -> Timeout | None:
    """What a line says its rank waited for; the first operation that was called and not completed, by its counters."""
    fields = event.fields
    if "sequence" in fields:
        op = fields.get("op") if "numel_in" in fields or "elapsed_ms" in fields else None
        return Timeout(int(fields["sequence"]), op, (fields.get("numel_in"), fields.get("numel_out")), event)
    enqueued, completed = int(fields.get("enqueued", "-1")), fields.get("completed", "-1")
    if not completed.isdecimal() or not 0 < int(completed) < enqueued:
        return None
    return Timeout(int(completed) + 1, None, (None, None), event)
