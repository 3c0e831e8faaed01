"""Reads a flight record as the agent does in each state of its ring, and compares it with what PyTorch itself dumps.

The rank's process group and its stack are looked for, too: with the record switched off they are all there is.
"""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.deadline import Deadline, ThreadPool
from agent.errors import Unavailable
from agent.find.choose_ranks import Rank
from agent.find.torch_groups import find_group
from agent.probe.path import probe_path
from agent.proc.memory.mappings import read_mappings
from agent.proc.memory.process_memory import open_memory
from agent.proc.procfs import ProcFs
from agent.sources.recorder.memory.copy_records import copy_records
from agent.sources.recorder.memory.counters_form import trace_of
from agent.sources.recorder.memory.group_counters import CounterReader
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.memory.marks import MarkReader
from agent.sources.recorder.merge import merge
from agent.sources.recorder.server_record import ask_record
from agent.sources.recorder.unix_server import find_unix_server
from agent.sources.stacks import StacksSource
from agent.tools.memory_budget import Memory
from agent.tools.run_bounded import find_program
from deploy.lab.environment import Environment
from shared.errors import UnhangError
from shared.formats.recorder.dump import parse_dump
from shared.missing import Reason
from shared.wire.trace import Trace
from tests.build.processes.looking import ask_source, rank_of
from tests.build.processes.ports import free_port

MOST = 8
STATES = {"empty": 0, "part-filled": 5, "full": MOST, "wrapped": MOST + 3}
"""How many operations have been issued in each."""
COLUMNS = (*STATES, "Gloo", "probe", "switched off", "group", "stack")
NO_RECORD, UNFINISHED = "has none", "the unfinished"
"""Gloo, before PyTorch 2.8; the probe's server, before 2.5. That server of NCCL's, since 2.15: here all is finished."""
_HOOKED = (2, 15)
"""Since then `nccl` is a class that PyTorch's hook records, and whose counters are not read."""

_JOB = Path(__file__).with_name("ring_job.py")
_SITES = "call sites"
_COMPARED = ("state", "collective_seq", "created_ns", "signature", "group")


def compare(environment: Environment, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each column of the table with what differs, "" where nothing does."""
    hooked = tuple(map(int, environment.folder.name.split(".")[:2])) >= _HOOKED
    with (  # at once, for each imports PyTorch
        _ranks(environment, folder, MOST) as job,
        _ranks(environment, folder, None) as probed,
        _ranks(environment, folder, 0) as unrecorded,
    ):
        for state in STATES:
            told = _told(job)
            wrong = None if told is None else _differs(job.pid, told["nccl"], counted=not hooked)
            yield state, "the job ended too early" if wrong is None else wrong
        if told is not None:
            yield "Gloo", _differs_of_gloo(job.pid, told["gloo"]) if "gloo" in told else NO_RECORD
        told = _told(probed)
        yield "probe", "the job ended too early" if told is None else _differs_by_probe(probed.pid, told, hooked=hooked)
        if _told(unrecorded) is None:
            yield "switched off", "the job ended too early"
            return
        yield "switched off", _record_of_none(unrecorded.pid)
        yield "group", _group(unrecorded.pid)
        yield "stack", _stack(unrecorded.pid)


@contextmanager
def _ranks(environment: Environment, folder: Path, size: int | None) -> Iterator[subprocess.Popen[bytes]]:
    """One rank whose recorder has room for so many; None: with the probe, which sees to that where PyTorch does not."""
    sizes = ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE")
    probed = {"PYTHONPATH": str(probe_path()), "UNHANG_PROBE_DIR": str(folder / "unhang")}
    variables = {
        **os.environ,
        **environment.variables(folder),
        **(probed if size is None else dict.fromkeys(sizes, str(size))),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    states = map(str, STATES.values() if size else (5,))
    command = (str(environment.python), "-W", "ignore", str(_JOB), *states)
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        try:
            yield job
        finally:
            job.kill()


def _told(job: subprocess.Popen[bytes]) -> dict[str, Trace] | None:
    """Return its next dumps by backend; the state before it is over with that."""
    assert job.stdin is not None and job.stdout is not None
    if getattr(job, "asked", False):
        job.stdin.write(b"\n")
        job.stdin.flush()
    job.asked = True  # type: ignore[attr-defined]
    said = next((line for line in job.stdout if line.startswith(b"{")), None)
    dumps = json.loads(said) if said is not None else None
    return dumps and {name: parse_dump(base64.b64decode(dump)) for name, dump in dumps.items() if dump}


def _differs(pid: int, told: Trace, *, counted: bool) -> str:
    locator, rank = RecorderLocator(), rank_of(pid)
    rank = rank._replace(identity=rank.identity.model_copy(update={"world_size": 1}))
    try:
        read = _record_of("nccl", rank, locator)
        marks = MarkReader(locator).read(ProcFs(), rank, Deadline(60.0))
        counters = CounterReader(locator).read(ProcFs(), rank, Deadline(60.0)) if counted else ()
    except UnhangError as error:
        return str(error)
    wrong = _differing(read, told)
    last = max(told.collective_seq, default=None)
    wrong += ["marks"] if last is not None and last not in {mark.issued for mark in marks} else []
    if counted:
        trace = trace_of(counters)
        wrong += ["counters"] if [mark.issued for mark in trace.marks] != [last or 0] or len(trace) else []
    return f"differs in {', '.join(wrong)}" if wrong else ""


def _differs_of_gloo(pid: int, told: Trace) -> str:
    try:
        wrong = _differing(_record_of("gloo", rank_of(pid), RecorderLocator()), told)
    except UnhangError as error:
        return str(error)
    return f"differs in {', '.join(wrong)}" if wrong else ""


def _differs_by_probe(pid: int, told: dict[str, Trace], *, hooked: bool) -> str:
    """Compare what the worker server that the probe has opened answers of NCCL, or of Gloo too, without call sites."""
    server = find_unix_server(rank_of(pid), ProcFs())
    if server is None:
        return "no socket was opened"
    dumps = [told["nccl"], merge([told[name] for name in sorted(told, reverse=True)])]
    try:
        read = ask_record(server, Memory(), Deadline(60.0))
        wrong = min((_differing(read, dump) for dump in dumps), key=len)
    except Unavailable as error:
        return NO_RECORD if error.reason is Reason.NOT_ENABLED else str(error)
    if hooked and not _differing(read, told["gloo"])[1:]:
        return UNFINISHED
    return f"differs in {', '.join(wrong)}" if wrong != [_SITES] else ""


def _record_of(backend: str, rank: Rank, locator: RecorderLocator) -> Trace:
    """Return that of Gloo, which is never empty here, or the other one."""
    records = (record.trace() for record in copy_records(ProcFs(), rank, locator, Deadline(60.0)))
    return next(one for one in records if (backend == "gloo") == any(each.backend == "gloo" for each in one.signatures))


def _differing(read: Trace, told: Trace) -> list[str]:
    wrong = [name for name in _COMPARED if list(getattr(read, name)) != list(getattr(told, name))]
    wrong += ["groups"] if read.groups != told.groups else []
    return wrong + ([_SITES] if _sites(read) != _sites(told) else [])


def _sites(trace: Trace) -> list[tuple[object, ...]]:
    return [trace.call_sites[number] for number in trace.call_site]


def _record_of_none(pid: int) -> str:
    try:
        read = copy_records(ProcFs(), rank_of(pid), RecorderLocator(), Deadline(60.0))[-1].trace()
    except UnhangError as error:
        return "" if "switched off" in str(error) else str(error)
    return f"{len(read)} records were read"


def _group(pid: int) -> str:
    procfs = ProcFs()
    with open_memory(procfs, procfs.stat(pid), Deadline(60.0), most_bytes=1 << 30) as memory:
        found = find_group(procfs, memory, read_mappings(procfs, pid))
    return "" if found is not None and (found.rank, found.size) == (0, 1) else f"found {found}"


def _stack(pid: int) -> str:
    found = ask_source(StacksSource(find_program("py-spy"), ThreadPool()), rank_of(pid), seconds=60.0)
    return "" if "ring_job.py" in str(found) else f"found {found}"[:200]
