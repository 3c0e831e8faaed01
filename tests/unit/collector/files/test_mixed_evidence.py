"""Any evidence of one rank beside any of another: `unhang diagnose --from` has a verdict, and accuses nobody who waits.

Every pair of {stack, own log, shared log, record, RAS, nothing} x {waits, elsewhere, failed} for two ranks, and drawn
ones for three and four.
"""

import json
import pickle
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from collector.files.diagnose_files import diagnose_directory
from collector.show.text.text import render_text
from shared.answer.diagnosis import Diagnosis
from shared.missing import Reason
from shared.wire.trace import Trace
from tests.build.jobs.dumped import dumped_entry
from tests.build.jobs.logged import caught, status

WAITS, ELSEWHERE, FAILED = STATES = ("waits", "elsewhere", "failed")
KINDS = ("stack", "own log", "shared log", "record", "RAS", "nothing")
_NOW = 1_795_000_000_000_000_000
_AT = 12


class Seen(NamedTuple):
    """What is there of one rank, and what its state is."""

    kind: str
    state: str


EVERY = tuple(Seen(kind, state) for kind, state in product(KINDS, STATES) if kind != "nothing" or state == WAITS)

_INNERMOST = {
    WAITS: "    all_reduce (torch/distributed/distributed_c10d.py:3252)\n    step (train.py:41)\n",
    ELSEWHERE: "    read_shard (shards.py:17)\n    step (train.py:39)\n",
    FAILED: "    _shutdown (threading.py:1590)\n",
}


def _stack(rank: int, state: str) -> str:
    head = f"Process 42{rank}: python train.py\nPython v3.11.4 (/usr/bin/python3.11)\n"
    return f'{head}\nThread 42{rank} (idle): "MainThread"\n{_INNERMOST[state]}    <module> (train.py:70)\n'


def _lines(rank: int, state: str) -> list[str]:
    plain = [f"[rank{rank}]: step {step}: loss 0.{9 - step}" for step in range(3)]
    if state == WAITS:
        return [*plain, caught(rank, _AT), status(rank, _AT, _AT)]
    if state == ELSEWHERE:
        return plain
    raised = ("Traceback (most recent call last):", '  File "train.py", line 39, in step', "ValueError: no shard 17")
    return [*plain, *(f"[rank{rank}]: {line}" for line in raised)]


def _record(state: str) -> bytes:
    issued = _AT if state == WAITS else _AT - 1
    done = {"state": "completed", "retired": True, "time_discovered_completed_ns": _NOW + _AT * 10**9}
    entries = [
        dumped_entry(
            op_id=number,
            collective_seq_id=number,
            time_created_ns=_NOW + number * 10**9,
            **({} if number == _AT else done),
        )
        for number in range(1, issued + 1)
    ]
    return json.dumps({"version": "2.10", "pg_config": {}, "entries": entries}).encode()


def _ras(ranks: Sequence[Seen]) -> str | None:
    told = [(rank, each.state) for rank, each in enumerate(ranks) if each.kind == "RAS"]
    if not told:
        return None
    counts = [
        f"  Rank {rank} has launched up to operation {_AT if state == WAITS else _AT - 1} -- GPU {rank} managed by "
        f"process 42{rank} on node 10.0.0.{rank}"
        for rank, state in told
    ]
    size = len(ranks)
    return "\n".join(
        (
            "NCCL version 2.27.5 compiled with CUDA 12.8",
            "",
            "Job summary",
            "===========",
            "",
            "Communicators... (0.00s)",
            "========================",
            "",
            "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors",
            "    #  in group  per comm  per node  per comm  in group",
            f"    0         1         {size}         1         {size}         {size}   RUNNING  MISMATCH",
            "",
            "Errors",
            "======",
            "",
            "Warnings",
            "========",
            "",
            "#0-0 (9d2f00c1a7e45b33) MISMATCH",
            "  Communicator ranks have different AllReduce operation counts",
            *counts,
            "",
        )
    )


def write(folder: Path, ranks: Sequence[Seen]) -> None:
    """Write what there is of each rank."""
    folder.mkdir()
    common: list[str] = []
    for rank, (kind, state) in enumerate(ranks):
        if kind == "stack":
            (folder / f"stacks_rank_{rank}.txt").write_text(_stack(rank, state))
        elif kind == "own log":
            (folder / f"rank_{rank}.log").write_text("\n".join(_lines(rank, state)) + "\n")
        elif kind == "shared log":
            common += _lines(rank, state)
        elif kind == "record":
            (folder / f"nccl_trace_rank_{rank}.json").write_bytes(_record(state))
    if common:
        (folder / "train.log").write_text("\n".join(common) + "\n")
    if (report := _ras(ranks)) is not None:
        (folder / "ras.txt").write_text(report)
    (folder / "notes.log").write_text("what was kept of the job\n")


def _is_fair(answer: Diagnosis, ranks: Sequence[Seen]) -> None:
    """One that waits where two or more others are known not to may itself be the stray: there the majority decides."""
    accused = {rank for finding in answer.findings for rank in finding.culprit_ranks}
    waits = {rank for rank, each in enumerate(ranks) if each.state == WAITS and each.kind != "nothing"}
    others = sum(each.kind != "nothing" for each in ranks) - len(waits)
    assert not accused & waits or len(waits) == 1 < others, (ranks, answer.headline)
    assert not [gap for gap in answer.coverage.missing if gap.missing.reason is Reason.FAILED], ranks


def _judge(folder: Path, cases: Iterable[Sequence[Seen]]) -> None:
    for number, ranks in enumerate(cases):
        at = folder / str(number)
        write(at, ranks)
        answer = diagnose_directory(at).diagnosis
        _is_fair(answer, ranks)
        assert render_text(answer, colour=False, width=100)


@pytest.mark.parametrize("first", EVERY, ids=lambda each: f"{each.kind}, {each.state}")
def test_all_pairs(first: Seen, tmp_path: Path) -> None:
    _judge(tmp_path, ((first, second) for second in EVERY))


@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_drawn_sets(size: int, seed: int, tmp_path: Path) -> None:
    random = Random(seed * 10 + size)
    _judge(tmp_path, [tuple(random.choice(EVERY) for _ in range(size)) for _ in range(60)])


@pytest.mark.parametrize("others", [each for each in EVERY if each.kind != "stack"], ids=str)
def test_most_wait_and_one_is_something_else(others: Seen, tmp_path: Path) -> None:
    """The most usual mixture: stacks of those that wait, and of the last one anything."""
    waits = Seen("stack", WAITS)
    _judge(tmp_path, [(waits, waits, others), (others, waits, waits, waits), (waits, Seen("record", WAITS), others)])


@pytest.mark.parametrize(
    "field", ["collective_seq_id", "p2p_seq_id", "op_id", "time_created_ns", "time_discovered_completed_ns"]
)
@pytest.mark.parametrize("form", ["json", "pickle"])
def test_a_record_counts_from_zero_on(field: str, form: str, tmp_path: Path) -> None:
    """Whatever a foreign file says: no step after the reader meets a negative number."""
    record = json.loads(_record(WAITS))
    for entry in record["entries"][::3]:
        entry[field] = -7
    (tmp_path / "nccl_trace_rank_0").write_bytes(
        json.dumps(record).encode() if form == "json" else pickle.dumps(record, protocol=2)
    )
    (tmp_path / "nccl_trace_rank_1").write_bytes(_record(WAITS))
    read = diagnose_directory(tmp_path)
    (trace, _) = (rank.recorder for snapshot in read.snapshots for rank in snapshot.ranks)
    assert isinstance(trace, Trace)
    assert all(min(column, default=0) >= 0 for column in trace.columns().values())
