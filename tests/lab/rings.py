"""Reads a flight record as the agent does in each state of its ring, and compares it with what PyTorch itself dumps."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from agent.deadline import Deadline
from agent.proc.procfs import ProcFs
from agent.sources.recorder.memory.copy_records import copy_records
from agent.sources.recorder.memory.counters_form import trace_of
from agent.sources.recorder.memory.group_counters import CounterReader
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.memory.marks import MarkReader
from deploy.lab.environment import Environment
from shared.errors import UnhangError
from shared.formats.recorder.dump import parse_dump
from shared.wire.trace import Trace
from tests.build.processes.looking import rank_of
from tests.build.processes.ports import free_port

MOST = 8
STATES = {"empty": 0, "part-filled": 5, "full": MOST, "wrapped": MOST + 3}
"""How many operations have been issued in each."""

_JOB = Path(__file__).with_name("ring_job.py")
_COMPARED = ("state", "collective_seq", "created_ns", "signature", "group")


def compare(environment: Environment, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each state of the ring with what differs, "" where nothing does."""
    variables = {
        **os.environ,
        **environment.variables(folder),
        **dict.fromkeys(("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"), str(MOST)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    command = (str(environment.python), "-W", "ignore", str(_JOB), *map(str, STATES.values()))
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdin is not None and job.stdout is not None
        try:
            for state in STATES:
                said = next((line for line in job.stdout if line.startswith(b'"')), None)
                if said is None:
                    yield state, "the job ended too early"
                    return
                yield state, _differs(job.pid, parse_dump(base64.b64decode(json.loads(said))))
                job.stdin.write(b"\n")
                job.stdin.flush()
        finally:
            job.kill()


def _differs(pid: int, told: Trace) -> str:
    locator, rank = RecorderLocator(), rank_of(pid)
    rank = rank._replace(identity=rank.identity.model_copy(update={"world_size": 1}))
    try:
        read = copy_records(ProcFs(), rank, locator, Deadline(60.0))[-1].trace()
        marks = MarkReader(locator).read(ProcFs(), rank, Deadline(60.0))
        counted = trace_of(CounterReader(locator).read(ProcFs(), rank, Deadline(60.0)))
    except UnhangError as error:
        return str(error)
    wrong = [name for name in _COMPARED if list(getattr(read, name)) != list(getattr(told, name))]
    last = max(told.collective_seq, default=None)
    wrong += ["marks"] if last is not None and last not in {mark.issued for mark in marks} else []
    wrong += ["counters"] if [mark.issued for mark in counted.marks] != [last or 0] or len(counted) else []
    wrong += ["groups"] if read.groups != told.groups else []
    return f"differs in {', '.join(wrong)}" if wrong else ""
