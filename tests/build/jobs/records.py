"""Flight records written by hand, a line each, where a simulation would hide what the test is about."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collector.align.expected import Expected
from shared.answer.diagnosis import Diagnosis
from shared.rank_sets import fold
from shared.wire.snapshot import NodeSnapshot
from shared.wire.stacks import Frame
from shared.wire.trace import COLUMNS, Group, Signature, State, Trace
from tests.build.jobs.dumps import bare_rank
from tests.build.jobs.judged import judged

BEGUN_NS = 1_700_000_000_000_000_000
ISSUED, STARTED, DONE = State.ISSUED, State.STARTED, State.COMPLETED


@dataclass(frozen=True)
class Row:
    """One record: `op` number `sequence` on `group`, and how far it has got."""

    group: str
    sequence: int
    state: State = DONE
    op: str = "all_reduce"
    inputs: Sequence[int] = (16,)
    outputs: Sequence[int] = (16,)
    peers: tuple[int, int] | None = None
    line: int = 0
    backend: str = "nccl"

    @property
    def signature(self) -> Signature:
        source, target = self.peers or (None, None)
        return Signature(
            self.op,
            self.backend,
            tuple((size,) for size in self.inputs),
            ("Float",) * len(self.inputs),
            tuple((size,) for size in self.outputs),
            ("Float",) * len(self.outputs),
            source,
            target,
        )


_STATES = {state.name.lower(): state for state in State}
_BACKENDS = ("gloo", "xccl")


def row_of(text: str) -> Row:
    """Read `0#1 issued gather 4->4,4 0>1 :12 gloo`: sizes, source and target, line and backend only where told."""
    (group, number), state, *more = text.split(" ")[0].split("#"), *text.split(" ")[1:]
    told: dict[str, Any] = {}
    for word in more:
        if "->" in word:
            sizes = (tuple(map(int, side.split(","))) if side != "-" else () for side in word.split("->"))
            told["inputs"], told["outputs"] = sizes
        elif ">" in word:
            told["peers"] = tuple(map(int, word.split(">")))
        elif word.startswith(":"):
            told["line"] = int(word[1:])
        else:
            told["backend" if word in _BACKENDS else "op"] = word
    return Row(group, int(number), _STATES[state], **told)


def trace_of(rows: Sequence[Row], groups: Mapping[str, Sequence[int]], *, timed: bool = False) -> Trace:
    """The record of one rank, oldest row first; `timed`: the job records when operations begin."""
    names = list(groups)
    signatures = list(dict.fromkeys(row.signature for row in rows))
    lines = sorted({row.line for row in rows} | {0})
    columns = {
        "group": [names.index(row.group) for row in rows],
        "signature": [signatures.index(row.signature) for row in rows],
        "call_site": [lines.index(row.line) for row in rows],
        "collective_seq": [0 if row.peers else row.sequence for row in rows],
        "p2p_seq": [row.sequence if row.peers else 0 for row in rows],
        "op_id": list(range(1, len(rows) + 1)),
        "is_p2p": [int(row.peers is not None) for row in rows],
        "state": [row.state for row in rows],
        "created_ns": [BEGUN_NS + at for at in range(len(rows))],
        "started_ns": [BEGUN_NS + at if timed and row.state is not ISSUED else 0 for at, row in enumerate(rows)],
        "completed_ns": [BEGUN_NS + at if row.state is DONE else 0 for at, row in enumerate(rows)],
    }
    return Trace(
        version="2.10",
        groups=tuple(Group(name=name, description=name, members=fold(ranks)) for name, ranks in groups.items()),
        signatures=tuple(signatures),
        call_sites=tuple((Frame("step", "/srv/train.py", line),) if line else () for line in lines),
        **{name: array("q", columns[name]) for name in COLUMNS},
    )


def recorded(
    rows: Mapping[int, Sequence[Row]], groups: Mapping[str, Sequence[int]], *, timed: bool = False
) -> list[NodeSnapshot]:
    """Bare dumps of these ranks. A group without ranks is one of which no dump names the members."""
    dumps = []
    for rank, mine in rows.items():
        own = {name: ranks for name, ranks in groups.items() if rank in ranks or not ranks}
        dumps.append(NodeSnapshot(live=False, ranks=(bare_rank(rank, trace_of(mine, own, timed=timed)),)))
    return dumps


def judged_records(
    rows: Mapping[int, Sequence[Row]], groups: Mapping[str, Sequence[int]], *, timed: bool = False
) -> Diagnosis:
    """The verdict on bare dumps of these ranks."""
    return judged(recorded(rows, groups, timed=timed), Expected(world_size=len(rows)))
