"""A simulated rank's recorder as a `Trace`, without the way through a file: what `parse_dump` makes of its dump."""

from array import array

from shared.ranks import fold
from shared.trace import COLUMNS, Group, Mark, Signature, State, Trace
from tests.collector.diagnose.simulation.engine import Run, Semantics
from tests.collector.diagnose.simulation.layouts import Layout
from tests.collector.diagnose.simulation.program import Team
from tests.collector.diagnose.simulation.recorder import Entry, Recorder, entries_of, marks_of


def trace_of(run: Run, layout: Layout, rank: int, recorder: Recorder, at_ns: int | None = None) -> Trace:
    """Return the trace of `rank` at a moment; None: when nothing moves any more."""
    entries = entries_of(run, rank, recorder, at_ns)
    mine = [team for team in layout.of(rank) if recorder.membership or any(e.team is team for e in entries)]
    if not recorder.membership:
        mine.sort(key=lambda team: next(i for i, entry in enumerate(entries) if entry.team is team))
    tables = _Tables({team: index for index, team in enumerate(mine)}, gloo=run.machine.semantics is Semantics.GLOO)
    rows = [tables.row(entry) for entry in entries]
    first_ops = {entry.team: entry.op_id for entry in reversed(entries)}
    return Trace(
        version=recorder.version,
        library="" if tables.gloo else "2.27.5",
        truncated=any(first > 1 for first in first_ops.values()),
        active_only=_active_only(rows, run, layout, rank, recorder, at_ns),
        groups=tuple(_group(team, recorder) for team in mine),
        signatures=tuple(tables.signatures),
        call_sites=tuple(tables.call_sites),
        marks=tuple(
            Mark(group=tables.teams[team], issued=_mark(issued), started=_mark(started), completed=_mark(completed))
            for team, (issued, started, completed) in marks_of(run, layout.of(rank), rank, recorder, at_ns).items()
            if team in first_ops
        ),
        **{name: array("q", (row[name] for row in rows)) for name in COLUMNS},
    )


def _active_only(
    rows: list[dict[str, int]], run: Run, layout: Layout, rank: int, recorder: Recorder, at_ns: int | None
) -> bool:
    """`parse_dump` takes a dump for one of active operations where it holds no other and the status knows of some."""
    marks = marks_of(run, layout.of(rank), rank, recorder, at_ns)
    kept = {row["group"] for row in rows}
    return bool(kept) and all(row["state"] != State.COMPLETED for row in rows) and any(m[2] > 0 for m in marks.values())


def _mark(sequence: int) -> int | None:
    return None if sequence < 0 else sequence


def _group(team: Team, recorder: Recorder) -> Group:
    shuffled = list(team.ranks) != sorted(team.ranks)
    return Group(
        name=team.name,
        description=team.description,
        members=fold(team.ranks) if recorder.membership else None,
        order=team.ranks if shuffled and recorder.membership else None,
    )


class _Tables:
    """Numbers groups, signatures and call sites as they are met."""

    def __init__(self, teams: dict[Team, int], *, gloo: bool) -> None:
        self.teams = teams
        self.gloo = gloo
        self.signatures: dict[Signature, int] = {}
        self.call_sites: dict[tuple[object, ...], int] = {(): 0}
        self.frames = True

    def row(self, entry: Entry) -> dict[str, int]:
        state = State.COMPLETED if entry.completed_ns else State.STARTED if entry.started_ns else State.ISSUED
        return {
            "group": self.teams[entry.team],
            "signature": self.signatures.setdefault(self._signature(entry), len(self.signatures)),
            "call_site": self.call_sites.setdefault(entry.frames, len(self.call_sites)),
            "collective_seq": entry.collective_seq,
            "p2p_seq": entry.p2p_seq,
            "op_id": entry.op_id,
            "is_p2p": int(entry.is_p2p),
            "state": state,
            "created_ns": entry.created_ns,
            "started_ns": entry.started_ns,
            "completed_ns": 0 if self.gloo else entry.completed_ns,
        }

    def _signature(self, entry: Entry) -> Signature:
        source = target = None
        if entry.call is not None and entry.call.peer is not None:
            me, peer = (entry.team.group_rank(rank) for rank in (entry.issued.rank, entry.call.peer))
            source, target = (me, peer) if entry.op == "send" else (peer, me)
        inputs, outputs = entry.dtypes
        backend = "gloo" if self.gloo else "nccl"
        return Signature(entry.op, backend, entry.inputs, inputs, entry.outputs, outputs, source, target)
