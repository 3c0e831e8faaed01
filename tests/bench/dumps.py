"""Flight-recorder dumps of a large job, byte for byte in the shape in which PyTorch pickles them.

PyTorch writes protocol 2 with a pickler of its own (torch/csrc/jit/serialization/pickler.cpp): strings are memoised by
value, frames by identity, lists, tuples and entries not at all, and integers take the smallest of BININT1, BININT2,
BININT and an eight-byte LONG1. The job: tensor, data and pipeline groups as Megatron lays them out, NCCL's conventions.
Pipeline traffic is broadcasts, because torchfrtrace gives up on sends in groups of more than two.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from shared.wire.stacks import Frame

RECORDS = 2000
TENSOR = 8
PIPELINE = 4
BEGAN_NS = 1_790_000_000_000_000_000
STEM = "nccl_trace_rank_"


@dataclass(frozen=True)
class Call:
    """One collective of a training step: on which of a rank's groups, what, of which size, from which line."""

    group: int
    op: str
    size: tuple[int, ...]
    """Of a shard where the operation gathers or scatters, else of the whole."""
    line: int

    def sizes(self, members: int) -> tuple[list[int], list[int]]:
        """Input and output: of all members' shards together where the operation gathers or scatters."""
        shard, together = list(self.size), [self.size[0] * members, *self.size[1:]]
        if self.op == "_all_gather_base":
            return shard, together
        return (together, shard) if self.op == "_reduce_scatter_base" else (shard, shard)


_ACTIVATIONS = (512, 1, 4096)
_LAYER = (
    Call(1, "_all_gather_base", _ACTIVATIONS, 210),
    Call(1, "_reduce_scatter_base", _ACTIVATIONS, 231),
    Call(1, "all_reduce", (4096,), 252),
)
STEP = (
    Call(3, "broadcast", _ACTIVATIONS, 88),
    *_LAYER * 8,
    Call(3, "broadcast", _ACTIVATIONS, 91),
    *(Call(2, "_reduce_scatter_base", (1 << 15, bucket), 131) for bucket in range(1, 7)),
    *(Call(2, "_all_gather_base", (1 << 15, bucket), 162) for bucket in range(1, 7)),
    Call(0, "all_reduce", (1,), 175),
    Call(0, "barrier", (1,), 178),
)
"""Forty collectives: the tensor group's of eight layers, the pipeline's, the buckets of the data group, the world's."""

_PATH = ("<module>", "main", "pretrain", "train", "train_step", "forward_backward", "forward", "_call_impl", "apply")
"""Functions that call one another down to the collective, outermost first."""

_STATES = ("completed", "started")


@dataclass(frozen=True)
class Job:
    """A job whose rank `culprit` stays away from the last collective of the world."""

    ranks: int

    @property
    def culprit(self) -> int:
        return self.ranks // 2 + 5

    @cached_property
    def world(self) -> tuple[int, ...]:
        return tuple(range(self.ranks))

    def groups(self, rank: int) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
        """Name, description and members of the four groups that `rank` is in."""
        data = self.ranks // TENSOR // PIPELINE
        tensor, stage = rank % TENSOR, rank // (TENSOR * data)
        first_data = 1 + self.ranks // TENSOR
        first_pipeline = first_data + TENSOR * PIPELINE
        of_data = tuple(stage * TENSOR * data + tensor + TENSOR * n for n in range(data))
        of_pipeline = tuple(rank % (TENSOR * data) + TENSOR * data * n for n in range(PIPELINE))
        return (
            ("0", "default_pg", self.world),
            (str(1 + rank // TENSOR), "tp", tuple(range(rank - tensor, rank - tensor + TENSOR))),
            (str(first_data + stage * TENSOR + tensor), "dp", of_data),
            (str(first_pipeline + rank % (TENSOR * data)), "pp", of_pipeline),
        )

    def calls(self, rank: int) -> Iterator[tuple[int, Call]]:
        """The calls of `rank` with their sequence number on the group, oldest first."""
        issued = [0, 0, 0, 0]
        for number in range(RECORDS - (rank == self.culprit)):
            call = STEP[number % len(STEP)]
            issued[call.group] += 1
            yield issued[call.group], call


class TorchPickle:
    """Pickles plain values as torch's own pickler does."""

    def __init__(self) -> None:
        self._memo: dict[Any, int] = {}

    def encode(self, value: Any) -> bytes:
        """Return the opcodes that push `value`."""
        if value is None:
            return b"N"
        if isinstance(value, bool):
            return b"\x88" if value else b"\x89"
        if isinstance(value, int):
            return number(value)
        if isinstance(value, float):
            return b"G" + struct.pack(">d", value)
        if isinstance(value, str):
            return self._get(value) or b"X" + struct.pack("<I", len(value.encode())) + value.encode() + self._put(value)
        if isinstance(value, Frame):
            return self._frame(value)
        if isinstance(value, tuple):
            return b"".join(map(self.encode, value)) + b"\x86"
        if isinstance(value, list):
            return b"](" + b"".join(map(self.encode, value)) + b"e"
        return b"}(" + b"".join(self.encode(key) + self.encode(each) for key, each in value.items()) + b"u"

    def _frame(self, frame: Frame) -> bytes:
        fields = {"name": frame.function, "filename": frame.file, "line": frame.line}
        return self._get(frame) or self.encode(fields) + self._put(frame)

    def _get(self, value: Any) -> bytes:
        index = self._memo.get(value)
        if index is None:
            return b""
        return b"h" + bytes((index,)) if index < 256 else b"j" + struct.pack("<I", index)

    def _put(self, value: Any) -> bytes:
        index = self._memo[value] = len(self._memo)
        return b"q" + bytes((index,)) if index < 256 else b"r" + struct.pack("<I", index)


def number(value: int) -> bytes:
    """Return the opcodes that push an integer of at most 64 bits."""
    if 0 <= value < 256:
        return b"K" + bytes((value,))
    if 0 <= value < 65_536:
        return b"M" + struct.pack("<H", value)
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def write_dumps(directory: Path, job: Job) -> None:
    """Write the dump of every rank of `job` into `directory`."""
    for rank in job.world:
        (directory / f"{STEM}{rank}").write_bytes(b"".join(_dump(job, rank)))


def _dump(job: Job, rank: int) -> Iterator[bytes]:
    groups = job.groups(rank)
    pickle = TorchPickle()
    encode = pickle.encode
    config = {name: {"name": name, "desc": text, "ranks": str(list(members))} for name, text, members in groups}
    yield b"\x80\x02}("
    yield encode("version") + encode("2.10") + encode("pg_config") + encode(config)
    yield encode("comm_lib_version") + encode("2.27.5") + encode("pg_status") + encode(_status(job, rank))
    yield encode("entries") + b"]("
    known: dict[Call, tuple[bytes, ...]] = {}
    for at, (sequence, call) in enumerate(job.calls(rank)):
        waits = at == RECORDS - 1
        created = BEGAN_NS + at * 2_500_000 + rank * 1_000
        fixed = known.get(call) if not waits else None
        if fixed is None:  # its strings may be written in full; from the second time on its bytes repeat
            fixed, again = (tuple(_fixed(pickle, groups, call, _STATES[waits])) for _ in range(2))
            known[call] = again
        issued, started = number(sequence), number(created + 100_000)
        completed = b"N" if waits else number(created + 2_000_000)
        duration = () if waits else (encode(1.0 + at / RECORDS),)
        values = (number(at), issued, issued, number(created), *duration, started, completed)
        for before, value in zip(fixed[:-1], values, strict=True):
            yield before + value
        yield fixed[-1]
    yield b"eu."


def _fixed(
    pickle: TorchPickle, groups: tuple[tuple[str, str, tuple[int, ...]], ...], call: Call, state: str
) -> Iterator[bytes]:
    """The bytes of an entry before, between and after what differs each time that a call is made."""
    encode = pickle.encode
    frames = [Frame(name, f"/opt/train/megatron/{name.strip('<>_')}.py", 40 + at) for at, name in enumerate(_PATH)]
    frames.append(Frame("step", "/opt/train/megatron/layers.py", call.line))
    frames.append(Frame(call.op, "/opt/torch/distributed/distributed_c10d.py", 3245))
    name, description, members = groups[call.group]
    sent, received = call.sizes(len(members))
    pushed: list[bytes] = [b"}("]

    def push(**fields: Any) -> None:
        pushed.extend(encode(name) + encode(value) for name, value in fields.items())

    def until(name: str) -> bytes:
        before = b"".join((*pushed, encode(name)))
        pushed.clear()
        return before

    push(frames=frames[::-1])
    yield until("record_id")
    push(pg_id=call.group, process_group=(name, description), thread_name="pt_main_thread", thread_id="139670158785408")
    yield until("collective_seq_id")
    push(p2p_seq_id=0)
    yield until("op_id")
    push(profiling_name=f"nccl:{call.op}")
    yield until("time_created_ns")
    if state == "completed":
        yield until("duration_ms")
    push(
        input_sizes=[sent], input_dtypes=["BFloat16"], output_sizes=[received], output_dtypes=["BFloat16"], state=state
    )
    yield until("time_discovered_started_ns")
    yield until("time_discovered_completed_ns")
    push(retired=state == "completed", timeout_ms=600_000, is_p2p=False)
    yield b"".join((*pushed, b"u"))


def _status(job: Job, rank: int) -> dict[str, dict[str, int]]:
    issued = [0, 0, 0, 0]
    for sequence, call in job.calls(rank):
        issued[call.group] = sequence
    waits = int(rank != job.culprit)
    return {
        str(at): {
            "last_enqueued_collective": last,
            "last_started_collective": last,
            "last_completed_collective": last - (waits if at == 0 else 0),
        }
        for at, last in enumerate(issued)
    }
