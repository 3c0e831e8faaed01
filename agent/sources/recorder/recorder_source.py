"""The source `recorder`: the flight record of a rank, copied from its memory or asked of torch's worker server.

Memory comes first: the rank need not answer, nobody must have prepared it, and the calls' stacks are there. The server
is asked where memory cannot be read, and as well where all is asked for (`full`): then the two are compared, and what
only one of them tells is put together. A server is there when our probe opened it (`unhang run`) or when the job did
(TORCH_WORKER_SERVER_SOCKET). Which socket it is we take from what the rank itself listens on, never from a name in a
shared folder.
"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.job_files import open_named
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import ProcFs
from agent.sources.logs import own_pid
from agent.sources.look_context import LookContext
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.memory.record import ALL, NEWEST, copy_records
from agent.sources.recorder.merge import compare, merge
from agent.sources.recorder.probe_advice import why_no_server
from agent.sources.recorder.process_groups import GroupTable, complete, parse_groups
from agent.sources.recorder.worker_server import ask
from agent.sources.source import Answer, LookDepth
from agent.tools.memory_budget import PARSED_BYTES, Memory, Receipt
from agent.tools.ptrace_access import permission_advice
from shared.errors import InvalidInput, NotPermitted, UnreadableDump
from shared.formats.recorder.dump import parse_dump
from shared.json_bounds import TooCostly, json_cost
from shared.missing import Reason
from shared.wire.trace import Origin, Trace

_SECONDS = 3.0
_LARGEST_GROUPS_FILE = 4 * 1024 * 1024
_MOST_RECORDS = 131_072
_MOST_KEPT = 32 * 1024 * 1024
"""Of memory, for the tables of one rank's record: 20,000 operations of which no two have the same shape."""
_TABLES = {"groups", "signatures", "call_sites", "marks"}
_STOPPED = "Tt"
_HELD_SECONDS = 1.5
"""Longer than py-spy stops a process for, on a busy machine or with --native."""
_AGAIN_SECONDS = 0.005
# ffff8f2a: 00000002 00000000 00010000 0001 01 32109 /tmp/unhang-1000/4242.sock
_LISTENING = re.compile(r"^\S+ \S+ \S+ 00010000 0001 01 +(\d+) (/\S{1,107})$", re.MULTILINE)
_PROBE_SOCKET = re.compile(r"/.*/?unhang[\w-]*/(\d+)(?:-\d)?\.sock", re.ASCII)
_HANDLERS = ("dump_nccl_trace_json", "fr_trace_json")
"""On NCCL the first holds everything and the second only what is not finished; Gloo has the second alone."""


@dataclass(frozen=True)
class _Server:
    """One worker server: where its socket lies, for the rank and for us."""

    pid: int
    uid: int
    path: str
    reach: str


class RecorderSource:
    """Fills `recorder`."""

    name = "recorder"

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory or Memory()
        self._locator = RecorderLocator()

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        procfs = context.procfs
        found = self._from_memory(rank, procfs, question, deadline)
        server = _find_server(rank, procfs)
        if server is None:
            trace = found if isinstance(found, Trace) else _raise(found, procfs, rank)
        else:
            trace = self._with_server(found, server, rank, procfs, question, deadline)
            with self._memory.parsing(deadline):
                trace = complete(trace, _groups(server, procfs))
        return {"recorder": trace if question.full else trace.windowed(question.window)}

    def _from_memory(
        self, rank: Rank, procfs: ProcFs, question: LookDepth, deadline: Deadline
    ) -> Trace | Unavailable | NotPermitted:
        """Return what a rank's memory holds, or why that cannot be read."""
        try:
            copied = copy_records(procfs, rank, self._locator, deadline, most=ALL if question.full else NEWEST)
            with self._memory.parsing(deadline):
                return merge([_bounded(record.trace()) for record in copied])
        except Unavailable as error:
            return error
        except NotPermitted:
            return NotPermitted(f"its memory may not be read: {permission_advice(procfs, rank.stat.pid)}")
        except Gone as error:
            return Unavailable(Reason.GONE, str(error))

    def _with_server(
        self,
        found: Trace | Unavailable | NotPermitted,
        server: _Server,
        rank: Rank,
        procfs: ProcFs,
        question: LookDepth,
        deadline: Deadline,
    ) -> Trace:
        """Ask the server where that is needed or wanted. Raises Unavailable where neither it nor memory tells."""
        if isinstance(found, Trace) and not question.full:
            return found
        try:
            _wait_for_our_own_stop(rank, procfs, deadline)
            told = self._ask_all(server, deadline.at_most(_SECONDS))
        except Unavailable:
            if isinstance(found, Trace):
                return found
            raise
        return compare(found, told) if isinstance(found, Trace) else told

    def _ask_all(self, server: _Server, deadline: Deadline) -> Trace:
        """Ask every handler that the server has and put the answers together."""
        with self._memory.receiving() as receipt:
            names = _handlers(server, deadline, receipt)
        known = [name for name in _HANDLERS if name in names]
        if not known:
            raise Unavailable(Reason.NOT_ENABLED, "this version of torch has no flight recorder that answers")
        return merge([self._ask_one(server, name, deadline) for name in known])

    def _ask_one(self, server: _Server, handler: str, deadline: Deadline) -> Trace:
        with self._memory.receiving() as receipt:
            body = _answer_of(server, handler, deadline, receipt)
            with self._memory.parsing(deadline):
                return _parse(body)


def _raise(why: Unavailable | NotPermitted, procfs: ProcFs, rank: Rank) -> NoReturn:
    """Raise why a rank's memory was not read, with what could be done otherwise if that is not a matter of rights."""
    if isinstance(why, NotPermitted):
        raise why
    reason = Reason.NOT_ENABLED if why.reason in (Reason.NOT_FOUND, Reason.GONE) else why.reason
    raise Unavailable(reason, f"{why}; {why_no_server(procfs, rank)}")


def _wait_for_our_own_stop(rank: Rank, procfs: ProcFs, deadline: Deadline) -> None:
    """Come back once the rank runs: `stacks` stops it for a moment. Raises Unavailable where it was not us."""
    limit = deadline.at_most(0.0 if rank.stat.state in _STOPPED else _HELD_SECONDS)
    while procfs.stat(rank.stat.pid).state in _STOPPED:
        if limit.left() <= 0:
            raise Unavailable(Reason.TIMED_OUT, "the rank is stopped, so its recorder cannot answer")
        time.sleep(_AGAIN_SECONDS)


def _find_server(rank: Rank, procfs: ProcFs) -> _Server | None:
    """Return the server that a rank listens with; None where it has none, or where we may not see its descriptors."""
    try:
        return _listening_server(rank, procfs)
    except NotPermitted:
        return None


def _listening_server(rank: Rank, procfs: ProcFs) -> _Server | None:
    pid = rank.stat.pid
    named = rank.environment.get("TORCH_WORKER_SERVER_SOCKET")
    inner = own_pid(procfs, pid)
    uid = int(procfs.fields(pid, "status").get("Uid", "0 0").split()[1])
    for path in _listening_paths(procfs, pid):
        probe = _PROBE_SOCKET.fullmatch(path)
        if path == named or (probe is not None and int(probe[1]) == inner):
            return _Server(pid, uid, path, procfs.path(pid, "root") + path)
    return None


def _listening_paths(procfs: ProcFs, pid: int) -> Iterator[str]:
    """Iterate over the unix sockets in the file system that the process listens on."""
    table = procfs.text(pid, "net/unix", most=8 * 1024 * 1024)
    listening = {f"socket:[{inode}]": path for inode, path in _LISTENING.findall(table)}
    for fd in procfs.fds(pid) if listening else ():
        try:
            path = listening.get(procfs.link(pid, f"fd/{fd}"))
        except Gone:
            continue
        if path is not None:
            yield path


def _handlers(server: _Server, deadline: Deadline, receipt: Receipt) -> str:
    request = "GET /handler/"
    status, body = ask(server.reach, request, pid=server.pid, uid=server.uid, deadline=deadline, receipt=receipt)
    return body[:65_536].decode(errors="replace") if status == 200 else "fr_trace_json"


def _answer_of(server: _Server, handler: str, deadline: Deadline, receipt: Receipt) -> bytes:
    request = f"POST /handler/{handler}"
    status, body = ask(server.reach, request, pid=server.pid, uid=server.uid, deadline=deadline, receipt=receipt)
    if status != 200:
        raise Unavailable(Reason.UNREADABLE, f"the recorder answered {handler} with HTTP status {status}")
    return body


def _parse(body: bytes) -> Trace:
    """Read a server's dump. Raises Unavailable, also where what it leaves would be too much to keep of one rank."""
    try:
        trace = parse_dump(body, most_bytes=PARSED_BYTES, most_records=_MOST_RECORDS)
    except UnreadableDump as error:
        reason = Reason.REFUSED if isinstance(error.__cause__, TooCostly) else Reason.UNREADABLE
        raise Unavailable(reason, str(error)) from error
    return _bounded(trace.model_copy(update={"origin": (Origin.WORKER_SERVER,)}))


def _bounded(trace: Trace) -> Trace:
    """Return a record whose tables are not too much to keep of one rank. Raises Unavailable of another."""
    kept = json_cost(trace.model_dump_json(include=_TABLES).encode())
    if kept > _MOST_KEPT:
        told = f"groups, signatures and stacks that would take {kept} bytes of memory"
        raise Unavailable(Reason.REFUSED, f"the recorder holds {told}; at most {_MOST_KEPT} are kept of a rank")
    return trace


def _groups(server: _Server, procfs: ProcFs) -> GroupTable:
    """Read what our probe wrote down about process groups; nothing where it is not there or makes no sense."""
    path = server.path.removesuffix(".sock") + ".groups.json"
    try:
        with open_named(procfs, server.pid, path, readers_of(procfs, server.pid)) as opened:
            if os.fstat(opened).st_uid != server.uid:
                return {}
            return parse_groups(os.pread(opened, _LARGEST_GROUPS_FILE, 0))
    except (Gone, NotPermitted, Unavailable, InvalidInput):
        return {}
