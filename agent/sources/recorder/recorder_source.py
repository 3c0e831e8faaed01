"""The source `recorder`: the flight record of a rank, from wherever it can be had.

1. From its memory: the rank need not answer, nobody must have prepared it, and the calls' stacks are there.
2. From torch's worker server, where memory cannot be read, and as well where all is asked for (`full`): then the two
   are compared, and what only one of them tells is put together. A server is there when our probe opened it
   (`unhang run`), when the job did (TORCH_WORKER_SERVER_SOCKET), or with `torch.distributed.debug` (not in surveys).
3. From the file that PyTorch's watchdog has left, where neither tells anything.
4. Where there is none of these, what is pending and how far each group is, by the process groups of NCCL themselves.

A server whose record is empty tells nothing of a rank whose recorder is off. The watchdog's pipe
(TORCH_NCCL_DEBUG_INFO_PIPE_FILE) is left alone: what is written there makes the rank dump, which is no looking.
"""

import os
import time
from contextlib import suppress
from typing import NamedTuple

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.job_files import open_named
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import ProcFs
from agent.proc.remembered import Remembered
from agent.sources.look_context import LookContext
from agent.sources.recorder.debug_server import DebugServerFinder
from agent.sources.recorder.dump_files import read_dump_file
from agent.sources.recorder.memory.copy_records import ALL, NEWEST, copy_records
from agent.sources.recorder.memory.counters_form import trace_of
from agent.sources.recorder.memory.group_counters import CounterReader
from agent.sources.recorder.memory.group_members import find_members
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.memory.recorder_header import HOW_TO_SWITCH_ON, SwitchedOff, switched_off_by
from agent.sources.recorder.merge import compare, merge
from agent.sources.recorder.probe_advice import why_no_server
from agent.sources.recorder.process_groups import GroupTable, complete, parse_groups
from agent.sources.recorder.record_bounds import bounded
from agent.sources.recorder.server_record import ask_record
from agent.sources.recorder.unix_server import find_unix_server
from agent.sources.recorder.worker_server import RankServer
from agent.sources.source import Answer, LookDepth
from agent.tools.memory_budget import Memory
from agent.tools.ptrace_access import permission_advice
from shared.errors import InvalidInput, NotPermitted, UnhangError
from shared.missing import Missing, Reason
from shared.wire.trace import Trace

_SECONDS = 3.0
_LARGEST_GROUPS_FILE = 4 * 1024 * 1024
_STOPPED = "Tt"
_HELD_SECONDS = 1.5
"""Longer than py-spy stops a process for, on a busy machine or with --native."""
_AGAIN_SECONDS = 0.005
_SEARCH_SECONDS = 1.5
_GROUPS_SECONDS = 4.0
"""Longer: where there is no record, nothing else tells which operation a rank is in."""
_MOST_TRIES = 3

_SEARCH_SHARE = 0.5
"""Of what is left of a look. On a busy machine a tenth of a second of work takes several."""
_MEMBERS_LATE = Missing(
    source="recorder", reason=Reason.TIMED_OUT, detail="the members of its process groups were not read in time"
)


class _Members(NamedTuple):
    """What is known of the members of a rank's groups, and how they were looked for."""

    table: GroupTable
    tries: int = 0
    longest: float = 0.0
    """The most seconds that one of these could take."""
    is_late: bool = False
    """Did the last one end for lack of time?"""


class _Asked(NamedTuple):
    """What is looked at, and how."""

    rank: Rank
    context: LookContext
    question: LookDepth
    deadline: Deadline

    @property
    def procfs(self) -> ProcFs:
        return self.context.procfs


class RecorderSource:
    """Fills `recorder`, and `recorded_at_ns` of a record from a file."""

    name = "recorder"

    def __init__(self, memory: Memory | None = None, *, locator: RecorderLocator | None = None) -> None:
        self._memory = memory or Memory()
        self._locator = locator or RecorderLocator()
        self._counters = CounterReader(self._locator)
        self._debug_servers = DebugServerFinder()
        self._members = Remembered[_Members]()

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        asked = _Asked(rank, context, question, deadline)
        found = self._from_memory(asked)
        if isinstance(found, Trace) and not question.full:
            return {"recorder": self._with_members(found, asked).windowed(question.window)}
        written_ns = None
        try:
            trace = self._beside_memory(found, asked)
        except UnhangError as error:
            dump = None if question.brief else self._from_file(error, asked)
            trace, written_ns = dump or (self._from_groups(error, asked), None)
        return {
            "recorder": trace if question.full else trace.windowed(question.window),
            **({} if written_ns is None else {"recorded_at_ns": written_ns}),
        }

    def _from_memory(self, asked: _Asked) -> Trace | Unavailable | NotPermitted:
        """Return what a rank's memory holds, or why that cannot be read."""
        rank, procfs, deadline = asked.rank, asked.procfs, asked.deadline
        most, window = (ALL, None) if asked.question.full else (NEWEST, asked.question.window)
        try:
            copied = copy_records(procfs, rank, self._locator, deadline, most=most, window=window)
            with self._memory.parsing(deadline):
                return merge([bounded(record.trace()) for record in copied])
        except SwitchedOff:
            return switched_off_by(rank.environment)
        except Unavailable as error:
            return error
        except NotPermitted:
            return NotPermitted(f"its memory may not be read: {permission_advice(procfs, rank.stat.pid)}")
        except Gone as error:
            return Unavailable(Reason.GONE, str(error))

    def _beside_memory(self, found: Trace | Unavailable | NotPermitted, asked: _Asked) -> Trace:
        """Return what the rank's server tells, beside what memory does. Raises why neither tells anything."""
        server: RankServer | None = find_unix_server(asked.rank, asked.procfs)
        if server is None and not asked.question.brief:
            server = self._debug_servers.find(asked.rank, asked.context, asked.deadline)
        if server is None:
            if isinstance(found, Trace):
                return self._with_members(found, asked)
            raise _with_advice(found, asked)
        try:
            _wait_for_our_own_stop(asked)
            told = ask_record(server, self._memory, asked.deadline.at_most(_SECONDS))
        except Unavailable:
            if isinstance(found, Trace):
                return found
            raise
        if isinstance(found, Trace):
            told = compare(found, told)
        elif not len(told) and not told.marks:
            raise found if isinstance(found, SwitchedOff) else _nothing_recorded(found)
        return self._with_members(told, asked)

    def _from_file(self, why: UnhangError, asked: _Asked) -> tuple[Trace, int] | None:
        """Return the dump that the rank has left, if it did, where `why` nothing else tells. Raises Unavailable."""
        if isinstance(why, SwitchedOff | Gone):
            return None
        try:
            return read_dump_file(asked.procfs, asked.rank, self._memory, asked.deadline)
        except (Gone, NotPermitted):
            return None
        except Unavailable as error:
            reason = why.reason if isinstance(why, Unavailable) else Reason.NOT_PERMITTED
            raise Unavailable(reason, f"{why}; {error}") from error

    def _from_groups(self, why: UnhangError, asked: _Asked) -> Trace:
        """Return how far the rank's groups are, where `why` there is no record. Raises that where they do not tell."""
        if isinstance(why, NotPermitted | Gone):
            raise why
        try:
            return trace_of(self._counters.read(asked.procfs, asked.rank, asked.deadline.at_most(_GROUPS_SECONDS)))
        except (Unavailable, NotPermitted):
            raise why from None

    def _with_members(self, trace: Trace, asked: _Asked) -> Trace:
        """Add the members of groups of which the record does not say them: from our probe's list, or from memory.

        Looked for a few times at most for each number of groups (all sockets of the node stand in one table), and
        whenever a look has more time than usual.
        """
        wanted = frozenset((group.name, group.description) for group in trace.groups if group.members is None)
        rank, procfs, deadline = asked.rank, asked.procfs, asked.deadline
        key = rank.key, len(trace.groups)
        known = self._members.get(key) or _Members({})
        limit = deadline.at_most(max(_SEARCH_SECONDS, deadline.left() * _SEARCH_SHARE))
        if not wanted <= known.table.keys() and (known.tries < _MOST_TRIES or limit.seconds >= 2 * known.longest):
            found = known.table | self._listed_members(asked)
            if not wanted <= found.keys():
                with suppress(Unavailable, NotPermitted):
                    found = find_members(procfs, rank, self._locator, wanted - found.keys(), limit) | found
            longest = max(known.longest, limit.seconds)
            known = self._members.put(key, _Members(found, known.tries + 1, longest, is_late=limit.left() <= 0))
        if known.is_late and not wanted <= known.table.keys():
            trace = trace.model_copy(update={"members_missing": _MEMBERS_LATE})
        return complete(trace, known.table)

    def _listed_members(self, asked: _Asked) -> GroupTable:
        """Return what our probe wrote down; nothing where it is not there or makes no sense."""
        server = find_unix_server(asked.rank, asked.procfs)
        if server is None:
            return {}
        path = server.path.removesuffix(".sock") + ".groups.json"
        with (
            self._memory.parsing(asked.deadline),
            suppress(Gone, NotPermitted, Unavailable, InvalidInput),
            open_named(asked.procfs, server.pid, path, readers_of(asked.procfs, server.pid)) as opened,
        ):
            if os.fstat(opened).st_uid == server.uid:
                return parse_groups(os.pread(opened, _LARGEST_GROUPS_FILE, 0))
        return {}


def _with_advice(why: Unavailable | NotPermitted, asked: _Asked) -> Unavailable | NotPermitted:
    """Return why a rank's memory was not read, with what could be done otherwise if that is of any use."""
    if isinstance(why, NotPermitted | SwitchedOff):
        return why
    reason = Reason.NOT_ENABLED if why.reason in (Reason.NOT_FOUND, Reason.GONE) else why.reason
    return Unavailable(reason, f"{why}; {why_no_server(asked.procfs, asked.rank)}")


def _nothing_recorded(why: Unavailable | NotPermitted) -> Unavailable:
    told = f"the worker server's flight record is empty: nothing was recorded yet, or the recorder is off ({why})"
    return Unavailable(Reason.NOT_ENABLED, f"{told}; if it is off, {HOW_TO_SWITCH_ON}")


def _wait_for_our_own_stop(asked: _Asked) -> None:
    """Come back once the rank runs: `stacks` stops it for a moment. Raises Unavailable where it was not us."""
    stat = asked.rank.stat
    limit = asked.deadline.at_most(0.0 if stat.state in _STOPPED else _HELD_SECONDS)
    while asked.procfs.stat(stat.pid).state in _STOPPED:
        if limit.left() <= 0:
            raise Unavailable(Reason.TIMED_OUT, "the rank is stopped, so its recorder cannot answer")
        time.sleep(_AGAIN_SECONDS)
