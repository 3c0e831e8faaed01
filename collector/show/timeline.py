"""Flight records on a time line, as Perfetto and chrome://tracing read them: a process per rank, a track per group.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ("Trace Event Format"), its
JSON object form, in which further members at the top are allowed.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ConfigDict, Field

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.roster import RankView
from collector.show.text.printable import printable
from collector.show.views import View, in_common
from shared.wire.snapshot import NodeSnapshot
from shared.wire.trace import Record, State, Trace

_WINDOW = 64
"""Records of each group and lane of a rank, the last ones."""
_TRACKS = 1000
"""Numbers of one group's tracks: operations that overlap stand on tracks of their own, for slices of one must nest."""


class TimelineView(View):
    """Operations of all ranks as slices. `ts` and `dur` are microseconds since the first of them."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)

    events: tuple[dict[str, Any], ...] = Field(alias="traceEvents", description="Trace events.")
    unit: str = Field(default="ms", alias="displayTimeUnit", description="What viewers show times in.")


def view_timeline(snapshots: Sequence[NodeSnapshot], expected: Expected) -> TimelineView:
    """Put every recorded operation on the time line; one that is not completed lasts until its rank was looked at."""
    roster = account_for_ranks(snapshots, Expected())
    traces = [
        (view, view.trace.windowed(_WINDOW), roster.ahead_ns(rank))
        for rank, view in sorted(roster.ranks.items())
        if view.trace is not None
    ]
    began = min((at - ahead for _, trace, ahead in traces for at in trace.created_ns if at), default=0)
    return TimelineView(
        **in_common(snapshots, expected, "recorder"),
        events=tuple(event for view, trace, ahead in traces for event in _rank(view, trace, began + ahead)),
    )


def _rank(view: RankView, trace: Trace, began_ns: int) -> Iterator[dict[str, Any]]:
    host = "" if view.host is None else f" on {printable(view.host, most=80)}"
    yield {"ph": "M", "pid": view.rank, "name": "process_name", "args": {"name": f"rank {view.rank}{host}"}}
    yield {"ph": "M", "pid": view.rank, "name": "process_sort_index", "args": {"sort_index": view.rank}}
    looked = max((look.looked_at_ns or look.recorded_at_ns or 0 for look in view.looks), default=0)
    tracks: dict[tuple[str, str, bool], list[int]] = defaultdict(list)
    for record in sorted(trace.records(), key=lambda record: record.created_ns):
        if not record.created_ns:
            continue  # nobody knows when
        end = max(_end(record, looked), record.created_ns)
        free = tracks[record.group.name, record.group.description, record.is_p2p]
        track = next((at for at, until in enumerate(free) if until <= record.created_ns), len(free))
        free[track : track + 1] = [end]
        tid = _TRACKS * list(tracks).index((record.group.name, record.group.description, record.is_p2p)) + track
        yield _slice(record, view.rank, tid, record.created_ns - began_ns, end - record.created_ns)
    for at, ((name, description, p2p), used) in enumerate(tracks.items()):
        shown = printable(description if description not in ("", "undefined") else name, most=80)
        for track in range(len(used)):
            args = {"name": f"{shown}{', point-to-point' if p2p else ''}"}
            yield {"ph": "M", "pid": view.rank, "tid": _TRACKS * at + track, "name": "thread_name", "args": args}


def _end(record: Record, looked_ns: int) -> int:
    if record.state is not State.COMPLETED:
        return looked_ns
    return record.completed_ns or record.started_ns


def _slice(record: Record, rank: int, tid: int, at_ns: int, lasted_ns: int) -> dict[str, Any]:
    sequence = record.p2p_seq if record.is_p2p else record.collective_seq
    pending = "" if record.state is State.COMPLETED else " (not completed)"
    site = record.call_site[-1] if record.call_site else None
    return {
        "ph": "X",
        "pid": rank,
        "tid": tid,
        "ts": at_ns / 1000,
        "dur": lasted_ns / 1000,
        "cat": "pending" if pending else "completed",
        "name": f"{printable(record.signature.op, most=80)} #{sequence}{pending}",
        "args": {
            "state": record.state.name.lower(),
            "sizes": [list(size) for size in record.signature.input_sizes[:4]],
            "called at": "" if site is None else printable(f"{site.function} ({site.file}:{site.line})", most=300),
        },
    }
