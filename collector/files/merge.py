"""Files that hold one source of one rank, and how they join the snapshots of the same job.

Several dumps of one rank are looks at it, one after the other: what it issued in between shows that it moved. A
record of Gloo holds no time of its dump: two dumps of a rank that stands still are as equal as a dump and its copy.
So equal ones are one look, unless whoever took them wrote down when, in a file beside each set that copying leaves as
it is: `date +%s > DIR/second/date`. Where there is such a file, times of files count for nothing.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collector.files.tree.walk import FoundFile
from shared.missing import Missing, Reason, refused
from shared.wire.log_events import Logs
from shared.wire.snapshot import Identity, NodeSnapshot, RankSnapshot
from shared.wire.stacks import Stacks
from shared.wire.trace import State, Trace

# 1795830408, what `date +%s` prints
_SECONDS = re.compile(rb"\s*(\d{9,10})\s*")


@dataclass
class BareRank:
    """What bare files gave of one rank, with the files' names."""

    traces: dict[str, Trace] = field(default_factory=dict)
    written_ns: dict[str, int | None] = field(default_factory=dict)
    """Of the files of `traces`."""
    stacks: dict[str, Stacks] = field(default_factory=dict)
    logs: list[Logs] = field(default_factory=list)


@dataclass(frozen=True)
class _Home:
    """Where a rank's last look is: the snapshot's index and the rank's index in it."""

    snapshot: int
    position: int


_MOST_DUMPS = 16
"""Looks at one rank that are kept, the newest."""


def merge_bares(
    snapshots: Sequence[NodeSnapshot], bares: Mapping[int, BareRank], unowned: Logs | None
) -> tuple[tuple[NodeSnapshot, ...], tuple[Missing, ...]]:
    """Return the snapshots with what bare files add, and what of these was left out and why.

    `unowned` holds the log files that belong to no one rank.
    """
    homes = _homes(snapshots)
    changed: dict[_Home, RankSnapshot] = {}
    alone: list[RankSnapshot] = []
    left_out: list[Missing] = []
    earlier: dict[int, list[RankSnapshot]] = defaultdict(list)
    for rank, bare in sorted(bares.items()):
        home = homes.get(rank)
        there = None if home is None else snapshots[home.snapshot].ranks[home.position]
        filled, unused = _fill(empty_rank(rank) if there is None else there, bare)
        left_out.extend(unused)
        if home is None:
            alone.append(filled)
            for age, look in enumerate(_earlier_looks(filled, bare)):
                earlier[age].append(look)
        else:
            changed[home] = filled
    kept = tuple(_replace(snapshot, index, changed) for index, snapshot in enumerate(snapshots))
    if alone or unowned is not None:
        kept = (*kept, NodeSnapshot(host=None, live=False, ranks=tuple(alone), logs=unowned))
    looks = tuple(NodeSnapshot(host=None, live=False, ranks=tuple(ranks)) for ranks in earlier.values())
    return (*kept, *looks), tuple(left_out)


def _earlier_looks(newest: RankSnapshot, bare: BareRank) -> list[RankSnapshot]:
    """The dumps of a rank before its newest one, which `newest` holds."""
    names = sorted(bare.traces, key=lambda name: _age_of(name, bare))[-_MOST_DUMPS:-1]
    empty = empty_rank(newest.identity.rank)
    return [
        empty.model_copy(
            update={
                "identity": newest.identity,
                "recorder": bare.traces[name],
                "recorded_at_ns": bare.written_ns.get(name),
            }
        )
        for name in names
    ]


def _age_of(name: str, bare: BareRank) -> tuple[int, int, int, str]:
    """What dumps of one rank are ordered by: what they hold, which no copying of files changes."""
    trace = bare.traces[name]
    return max(trace.created_ns, default=0), trace.state.count(State.COMPLETED), len(trace), name


def _homes(snapshots: Sequence[NodeSnapshot]) -> dict[int, _Home]:
    """Return each rank's last look, where all are of one job and attempt; else a file may be of any."""
    runs = {(r.identity.job, r.identity.attempt) for snapshot in snapshots for r in snapshot.ranks}
    if len(runs) != 1:
        return {}
    in_time = sorted(enumerate(snapshots), key=lambda pair: (pair[1].taken_at_ns or 0, pair[0]))
    return {
        rank.identity.rank: _Home(index, position)
        for index, snapshot in in_time
        for position, rank in enumerate(snapshot.ranks)
    }


def _replace(snapshot: NodeSnapshot, index: int, changed: Mapping[_Home, RankSnapshot]) -> NodeSnapshot:
    ranks = tuple(changed.get(_Home(index, position), rank) for position, rank in enumerate(snapshot.ranks))
    return snapshot.model_copy(update={"ranks": ranks})


def empty_rank(rank: int) -> RankSnapshot:
    """A rank of which nothing has been seen yet."""

    def nothing(source: str) -> Missing:
        return Missing(source=source, reason=Reason.NOT_FOUND, detail="no file contains it")

    return RankSnapshot(
        identity=Identity(rank=rank),
        process=nothing("process"),
        stacks=nothing("stacks"),
        fds=nothing("fds"),
        logs=nothing("logs"),
        recorder=nothing("recorder"),
    )


def _fill(there: RankSnapshot, bare: BareRank) -> tuple[RankSnapshot, list[Missing]]:
    """Return `there` with what it lacks taken from `bare`, and the names of the files that were not needed."""
    update: dict[str, object] = {}
    unused: list[Missing] = []
    if bare.traces:
        name = max(bare.traces, key=lambda name: _age_of(name, bare))
        if isinstance(there.recorder, Missing):
            update |= {"recorder": bare.traces[name], "recorded_at_ns": bare.written_ns.get(name)}
        else:
            unused += _unused(bare.traces, there.identity.rank, None)
    if bare.stacks:
        name = max(bare.stacks, key=lambda name: (len(bare.stacks[name].threads), name))
        if isinstance(there.stacks, Missing):
            update["stacks"] = bare.stacks[name]
            unused += _unused(bare.stacks, there.identity.rank, name)
            if there.identity.pid is None:
                update["identity"] = there.identity.model_copy(update={"pid": bare.stacks[name].pid})
        else:
            unused += _unused(bare.stacks, there.identity.rank, None)
    if bare.logs:
        update["logs"] = join_logs([*([] if isinstance(there.logs, Missing) else [there.logs]), *bare.logs])
    return there.model_copy(update=update), unused


def join_logs(logs: Iterable[Logs]) -> Logs:
    """Return several files' logs as one."""
    logs = tuple(logs)
    return Logs(
        files=tuple(file for each in logs for file in each.files),
        events=tuple(event for each in logs for event in each.events),
        communicators=tuple(told for each in logs for told in each.communicators),
    )


def _unused(names: Iterable[str], rank: int, used: str | None) -> list[Missing]:
    instead = "the snapshot's own" if used is None else used
    return [refused(name, f"of rank {rank}, {instead} is used instead") for name in sorted(names) if name != used]


class DatedSets:
    """Dumps in folders, and the dates beside them."""

    def __init__(self) -> None:
        self._dates: dict[str, int] = {}
        self._written_ns: dict[str, int | None] = {}

    def take_date(self, found: FoundFile) -> bool:
        """Is it such a date? Then it is kept."""
        folder = _folder_of(found.name)
        told = _SECONDS.fullmatch(found.data) if found.name == f"{folder}date" else None
        if told is not None:
            self._dates[folder] = int(told[1]) * 1_000_000_000
        return told is not None

    def add(self, dump: FoundFile) -> None:
        """Keep when a dump's file was written."""
        self._written_ns[dump.name] = dump.written_ns

    def date_of(self, name: str) -> int | None:
        """Return when a dump was taken by the date beside it; None: there is none."""
        return self._dates.get(_folder_of(name))

    def taken_ns(self, name: str) -> int | None:
        """Return when a dump was taken; None: nothing tells."""
        return self.date_of(name) if self._dates else self._written_ns[name]

    def copies(self, traces: Mapping[str, Trace]) -> Iterator[tuple[str, str]]:
        """Iterate over dumps of one rank that are no looks of their own, each with the one that it equals."""
        alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
        for name, trace in sorted(traces.items()) if len(traces) > 1 else ():
            date = self.date_of(name)
            firsts = alike[date, trace.created_ns.tobytes(), trace.state.tobytes()]
            first = next((each for each in firsts if traces[each] == trace), None)
            if first is None:
                firsts.append(name)
            else:
                yield name, first


def _folder_of(name: str) -> str:
    """Return `dumps.zip!second/` of `dumps.zip!second/date`."""
    return name[: max(name.rfind("/"), name.rfind("!")) + 1]
