"""What a flight recorder keeps of a simulated rank: entries in torch's terms, at any moment.

The facts, from torch/csrc/distributed/c10d (2.4 to 2.13): collectives and point-to-point operations count apart. A
batch counts once; its parts are recorded without timing, so they stay "scheduled" for ever, and the `coalesced`
entry that ends it is the one that starts and completes. A start is seen where TORCH_NCCL_ENABLE_TIMING is set. Before
2.7 parts of coalesced collectives are not recorded. Gloo records no point-to-point operations, though they count in
`op_id`, keeps "scheduled" for ever, and retires what is done.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from shared.wire.stacks import Frame
from tests.build.simulation.program import Batch, Operation, Shape, Team
from tests.build.simulation.run import Issued, Run, Semantics

_FILE = "/home/ada/train.py"


@dataclass(frozen=True)
class Recorder:
    """How one rank's recorder is set up."""

    version: str = "2.10"
    size: int = 2000
    """Entries that the ring buffer holds."""
    timing: bool = True
    """Are starts seen?"""
    first_id: int = 0
    """The rank has recorded so many operations of other kinds before; ids differ between ranks."""
    clock_ns: int = 0
    """How far the node's clock is off."""
    frames: bool = True
    membership: bool = True

    @property
    def minor(self) -> int:
        return int(self.version.partition(".")[2])


class Entry(NamedTuple):
    """One entry of a dump. Times are by the node's clock; 0: not known."""

    record_id: int
    team: Team
    op: str
    call: Operation | None
    """None: the end of a batch."""
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    collective_seq: int
    p2p_seq: int
    op_id: int
    is_p2p: bool
    created_ns: int
    started_ns: int
    completed_ns: int
    issued: Issued
    framed: bool

    @property
    def dtypes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Of the inputs and of the outputs; a tensor that is not there has none."""
        dtype = "" if self.call is None else self.call.dtype
        inputs, outputs = (
            tuple("Undefined" if s == (0,) else dtype for s in each) for each in (self.inputs, self.outputs)
        )
        return inputs, outputs

    @property
    def unfinished(self) -> bool:
        """Has it not completed, whatever the record says? The parts of a batch never do."""
        return self.issued.completed_ns is None

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Outermost first."""
        if not self.framed:
            return ()
        line = 51 if self.call is None else self.call.line
        return (Frame("main", _FILE, 12), Frame("train_step", _FILE, line))


def every_entry(run: Run, rank: int, recorder: Recorder, at_ns: int | None = None) -> list[Entry]:
    """What the recorder of `rank` has held until `at_ns`, oldest first; None: when nothing moves any more.

    Its ring buffer holds the last `recorder.size` of these.
    """
    moment = run.ended_ns if at_ns is None else at_ns
    made = _Ledger(run.machine.semantics, recorder)
    return [entry for op in run.issued[rank] if op.issued_ns <= moment for entry in made.entries(op, moment)]


def marks_of(every: Sequence[Entry], teams: Sequence[Team], *, gloo: bool) -> dict[Team, tuple[int, int, int]]:
    """The highest sequence of each group that was enqueued, started, completed, -1: none. Gloo counts by `op_id`."""
    marks = dict.fromkeys(teams, (-1, -1, -1))
    for entry in every:
        if gloo or not entry.is_p2p:
            number = entry.op_id if gloo else entry.collective_seq
            issued, started, completed = marks[entry.team]
            started = number if entry.started_ns else started
            completed = number if entry.completed_ns else completed
            marks[entry.team] = (max(issued, number), started, completed)
    return {team: told for team, told in marks.items() if told != (-1, -1, -1)}


class _Ledger:
    """Numbers one rank's entries."""

    def __init__(self, semantics: Semantics, recorder: Recorder) -> None:
        self.gloo = semantics is Semantics.GLOO
        self.recorder = recorder
        self.collectives: dict[Team, int] = defaultdict(int)
        self.p2p: dict[Team, int] = defaultdict(int)
        self.ops: dict[Team, int] = defaultdict(int)
        self.ids = count(recorder.first_id)

    def entries(self, op: Issued, moment: int) -> Iterator[Entry]:
        call = op.call
        if isinstance(call, Batch):
            yield from self._batch(op, call, moment)
        elif isinstance(call, Operation):
            self.ops[call.team] += 1
            (self.p2p if call.is_p2p else self.collectives)[call.team] += 1
            if not (self.gloo and call.is_p2p):
                yield self._entry(op, call, moment)

    def _batch(self, op: Issued, batch: Batch, moment: int) -> Iterator[Entry]:
        as_p2p = batch.is_p2p and self.recorder.minor >= 7
        (self.p2p if as_p2p else self.collectives)[batch.team] += 1
        for part in batch.parts:
            self.ops[batch.team] += 1
            if batch.is_p2p or self.recorder.minor >= 7:
                yield self._entry(op, part, moment, timed=False)
        yield self._entry(op, None, moment)

    def _entry(self, op: Issued, call: Operation | None, moment: int, *, timed: bool = True) -> Entry:
        team = op.call.team  # type: ignore[union-attr]  # kernels leave no entry
        started, completed = (
            time + self.recorder.clock_ns if timed and time is not None and time <= moment else 0
            for time in (op.started_ns, op.completed_ns)
        )
        return Entry(
            record_id=next(self.ids),
            team=team,
            op="coalesced" if call is None else call.op,
            call=call,
            inputs=() if call is None else call.inputs,
            outputs=() if call is None else call.outputs,
            collective_seq=self.collectives[team],
            p2p_seq=self.p2p[team],
            op_id=self.ops[team],
            is_p2p=call.is_p2p if call is not None else op.call.is_p2p,  # type: ignore[union-attr]
            created_ns=op.issued_ns + self.recorder.clock_ns,
            started_ns=started if self.recorder.timing and not self.gloo else 0,
            completed_ns=completed,
            issued=op,
            framed=self.recorder.frames,
        )
