"""A simulated rank's dump as a file in torch's shapes: pickle with frames, or JSON without."""

import json
import pickle
from collections.abc import Sequence
from typing import Any

from tests.build.simulation.layouts import Layout
from tests.build.simulation.program import Operation, Team
from tests.build.simulation.recorder import Entry, Recorder, every_entry, marks_of
from tests.build.simulation.run import Run, Semantics

_NCCL_NAMES = {
    "all_gather_into_tensor": "_all_gather_base",
    "reduce_scatter_tensor": "_reduce_scatter_base",
    "all_reduce_coalesced": "allreduce_coalesced",
    "barrier": "all_reduce_barrier",
}


def dump_of(run: Run, layout: Layout, rank: int, recorder: Recorder, *, at_ns: int | None = None) -> dict[str, Any]:
    """The dump of one rank as torch's own tools hold it, numbers as numbers."""
    every = every_entry(run, rank, recorder, at_ns)
    entries = every[-recorder.size :]
    ids = {team: number for number, team in enumerate(layout.of(rank))}
    gloo = run.machine.semantics is Semantics.GLOO
    return {
        "version": recorder.version,
        "comm_lib_version" if recorder.minor >= 10 else "nccl_version": "" if gloo else "2.27.5",
        "pg_config": _config(layout.of(rank), recorder),
        "pg_status": _status(marks_of(every, layout.of(rank), gloo=gloo), ids),
        "entries": [_entry(entry, ids[entry.team], recorder, gloo=gloo) for entry in entries],
        "nccl_comm_state": {},
    }


def pickled(dump: dict[str, Any]) -> bytes:
    """As TORCH_NCCL_DUMP_ON_TIMEOUT writes it: pickle protocol 2."""
    return pickle.dumps(dump, protocol=2)


def as_json(dump: dict[str, Any]) -> bytes:
    """As the worker server's `fr_trace_json` writes it: no frames, statuses as text, unset times as 0."""
    entries = [
        {
            **{key: value for key, value in entry.items() if key != "frames"},
            "time_discovered_started_ns": entry["time_discovered_started_ns"] or 0,
            "time_discovered_completed_ns": entry["time_discovered_completed_ns"] or 0,
        }
        for entry in dump["entries"]
    ]
    status = {pg: {key: str(value) for key, value in marks.items()} for pg, marks in dump["pg_status"].items()}
    return json.dumps({**dump, "pg_status": status, "entries": entries}).encode()


def _config(teams: Sequence[Team], recorder: Recorder) -> dict[str, dict[str, str]]:
    if not recorder.membership:  # of whichever group was made last, and of the world alone its members
        return {"": {"name": "", "desc": "", "ranks": str(list(teams[0].ranks)) if len(teams) == 1 else "[]"}}
    return {team.name: {"name": team.name, "desc": team.description, "ranks": str(list(team.ranks))} for team in teams}


def _status(marks: dict[Team, tuple[int, int, int]], ids: dict[Team, int]) -> dict[str, dict[str, int]]:
    names = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
    return {str(ids[team]): dict(zip(names, told, strict=True)) for team, told in marks.items()}


def _entry(entry: Entry, pg_id: int, recorder: Recorder, *, gloo: bool) -> dict[str, Any]:
    inputs, outputs = entry.dtypes
    done, started = entry.completed_ns > 0, entry.started_ns > 0
    told = {
        "record_id": entry.record_id,
        "pg_id": pg_id,
        "process_group": (entry.team.name, entry.team.description),
        "collective_seq_id": entry.collective_seq,
        "p2p_seq_id": entry.p2p_seq,
        "op_id": entry.op_id,
        "profiling_name": f"gloo:{entry.op}" if gloo else f"nccl:{_title(entry)}",
        "time_created_ns": entry.created_ns,
        "input_sizes": [list(shape) for shape in entry.inputs],
        "input_dtypes": list(inputs),
        "output_sizes": [list(shape) for shape in entry.outputs],
        "output_dtypes": list(outputs),
        "state": "scheduled" if gloo else "completed" if done else "started" if started else "scheduled",
        "time_discovered_started_ns": None if gloo else entry.started_ns or None,
        "time_discovered_completed_ns": None if gloo else entry.completed_ns or None,
        "retired": done,
        "timeout_ms": 600000,
        "is_p2p": entry.is_p2p,
    }
    if recorder.frames:
        told["frames"] = [{"name": f.function, "filename": f.file, "line": f.line} for f in reversed(entry.frames)]
    if recorder.minor >= 10:
        told |= {"thread_id": "140151818623872", "thread_name": "python"}
    return told


def _title(entry: Entry) -> str:
    """What ProcessGroupNCCL calls the operation; peers are group ranks."""
    if isinstance(entry.call, Operation) and entry.call.is_p2p:
        assert entry.call.peer is not None
        me, peer = (entry.team.group_rank(rank) for rank in (entry.issued.rank, entry.call.peer))
        return f"send {me}->{peer}" if entry.op == "send" else f"recv {me}<-{peer}"
    return _NCCL_NAMES.get(entry.op, entry.op)
