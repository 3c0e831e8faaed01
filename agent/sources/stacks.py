"""The source `stacks`: the Python stacks of a rank, of its children, such as DataLoader workers, and of those to whom
its wait leads.
"""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from agent.deadline import Deadline, Late, ThreadPool, Turns
from agent.errors import Gone, Unavailable, missing_for
from agent.find.choose_ranks import Rank
from agent.proc.credentials import require_below
from agent.sources.contended_file import contended_file
from agent.sources.look_context import LookContext
from agent.sources.polled_lock import polled_lock
from agent.sources.process import read_process, with_arguments
from agent.sources.progress_counters import take_settled_beat
from agent.sources.serving.requests import unanswered_by
from agent.sources.source import Answer, LookDepth
from agent.sources.waits.other_ends import AWAITING
from agent.tools.memory_budget import Memory
from agent.tools.pyspy import dump_stacks
from agent.tools.pystack import dump_stacks_with_pystack, with_unknown_threads
from agent.tools.syscall_names import read_syscall
from shared.errors import NotPermitted
from shared.json_bounds import json_cost
from shared.missing import Missing, Reason
from shared.wire.job_names import is_same_job
from shared.wire.snapshot import Child, Process
from shared.wire.stacks import Stacks

_MOST_CHILDREN = 64
_MOST_CHILD_STACKS = 8
_MOST_FOLLOWED = 8
"""Processes to which the wait of one rank leads: each costs a look."""
_MOST_AT_ONCE = 8
"""Processes that are read, however many CPUs there are: what py-spy says of a hostile one is megabytes."""
_MOST_KEPT = 12 * 1024 * 1024
_MOST_KEPT_OF_CHILD = 3 * 1024 * 1024
"""Of memory, for the stacks of one process: 300 threads of 60 frames take a third of the first."""
_OTHERS_FIRST = "other processes were being examined the whole time"
_ONE_OF_MANY = "the rank has many children; others in the same state were examined"
_BY_THREADS = ("grpc/_channel.py", "ray/_private/worker.py")
_WITHHELD: dict[str, object] = dict.fromkeys(("wchan", "syscall", "before", "after"))
_WITHHELD |= {"kernel_stack": (), "lock_holders": (), "awaits": (), "command": ""}
"""What /proc shows to none but a process's own user: left out of what is not the rank's user's own."""
_PLAIN_SECONDS = 3.0
_NATIVE_SECONDS = 20.0


class StacksSource:
    """Fills `stacks`, and those of processes near: `children`, `beside`, `above`, with the `requests` to these.

    As many processes are read at a time as there are CPUs, not more.
    """

    name = "stacks"

    def __init__(
        self, program: Path | None, pool: ThreadPool, memory: Memory | None = None, *, fallback: Path | None = None
    ) -> None:
        self._program = program
        self._memory = memory or Memory()
        self._fallback = fallback
        self._pool = pool
        self._turns = Turns(max(1, min(_MOST_AT_ONCE, (os.cpu_count() or 2) - 1)))

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        if question.stacks == "none":
            raise Unavailable(Reason.NOT_ENABLED, "the request asked for no stacks")
        native = question.stacks == "native"
        stacks = self._stacks(rank.stat.pid, context, native=native, deadline=deadline, fallback=self._fallback)
        if question.every_thread and isinstance(stacks, Stacks) and stacks.native:
            with suppress(Unavailable, Gone, NotPermitted):
                stacks = with_unknown_threads(stacks, context.procfs, rank.stat.pid, self._fallback, deadline)
        stacks = _within(stacks, _MOST_KEPT)
        if question.brief:
            return {"stacks": stacks}
        children = self._others(rank, rank.children, context, deadline)
        requests = unanswered_by(rank.above, context)
        return {
            "stacks": stacks,
            "children": children,
            "followed": self._followed(rank, children, context, deadline, asks=_asks_by_threads(stacks)),
            "beside": self._others(rank, rank.beside, context, deadline),
            "above": () if requests is None else self._others(rank, requests.servers, context, deadline),
            "requests": requests,
            "polled_lock": polled_lock(stacks, rank, context, self._program, deadline) or contended_file(rank, context),
        }

    def _stacks(
        self, pid: int, context: LookContext, *, native: bool, deadline: Deadline, fallback: Path | None = None
    ) -> Stacks | Missing:
        """Ask py-spy, and the fallback where that does not find the interpreter or is not there at all."""
        try:
            with self._turns.one(deadline, _NATIVE_SECONDS if native else _PLAIN_SECONDS) as limit:
                try:
                    return dump_stacks(
                        context.procfs, pid, self._program, native=native, deadline=limit, memory=self._memory
                    )
                except Unavailable as error:
                    if fallback is None or error.reason is not Reason.NOT_FOUND:
                        raise
                    with suppress(Unavailable):
                        return dump_stacks_with_pystack(pid, fallback, deadline.at_most(_PLAIN_SECONDS))
                    raise
        except Late:
            return missing_for("stacks", Unavailable(Reason.TIMED_OUT, _OTHERS_FIRST))
        except (Unavailable, Gone, NotPermitted) as error:
            return missing_for("stacks", error)

    def _others(self, rank: Rank, pids: Sequence[int], context: LookContext, deadline: Deadline) -> tuple[Child, ...]:
        """Look at the rank's children, or siblings; of many, only the most unlike the others are read for stacks."""
        reads = {str(pid): partial(self._process, pid, rank, context, deadline) for pid in pids[:_MOST_CHILDREN]}
        answers = self._pool.run(reads, deadline, owner=rank.key, whose=rank.identity.user).values()
        processes = by_rarity([process for process in answers if isinstance(process, Process)])
        chosen = {process.pid for process in processes[:_MOST_CHILD_STACKS]}
        looks = {str(p.pid): partial(self._child, p, rank, context, deadline, p.pid in chosen) for p in processes}
        children = self._pool.run(looks, deadline, owner=rank.key, whose=rank.identity.user).values()
        return tuple(sorted((c for c in children if isinstance(c, Child)), key=lambda child: child.process.pid))

    def _followed(
        self, rank: Rank, children: Sequence[Child], context: LookContext, deadline: Deadline, *, asks: bool
    ) -> tuple[Child, ...]:
        """Look at whoever owes the rank or its children what they wait for, and at whoever owes these something."""
        with suppress(Gone, NotPermitted):
            call = read_syscall(context.procfs, rank.stat.pid)
            waits = asks or (call is not None and call.name in AWAITING)
            waiting = [child.process for child in children]
            waiting += [self._process(rank.stat.pid, rank, context, deadline)] if waits else []
            return self._owing(rank, waiting, context, deadline)
        return ()

    def _owing(
        self, rank: Rank, waiting: Sequence[Process], context: LookContext, deadline: Deadline
    ) -> tuple[Child, ...]:
        found: list[Child] = []
        seen = {pid for pid, identity in context.ranks.items() if is_same_job(identity, rank.identity)}
        seen |= {rank.stat.pid, *rank.children}
        while waiting and len(found) < _MOST_FOLLOWED:
            holders = [holder for each in waiting for end in each.awaits for holder in end.holders]
            pids = [holder.pid for holder in sorted(holders, key=lambda holder: not holder.is_actor)]
            fresh = [pid for pid in dict.fromkeys(pids) if pid not in seen][: _MOST_FOLLOWED - len(found)]
            seen.update(fresh)
            looks = self._others(rank, fresh, context, deadline)
            found += looks
            waiting = [look.process for look in looks]
        return tuple(found)

    def _process(self, pid: int, rank: Rank, context: LookContext, deadline: Deadline) -> Process:
        process = read_process(context, pid)
        try:
            _require_ours(pid, rank, context)
        except NotPermitted:
            return process.model_copy(update=_WITHHELD)
        return with_arguments(process, context, self._pool, deadline)

    def _child(self, process: Process, rank: Rank, context: LookContext, deadline: Deadline, chosen: bool) -> Child:
        try:
            _require_ours(process.pid, rank, context)
        except NotPermitted as error:
            return Child(process=process.model_copy(update=_WITHHELD), stacks=missing_for("stacks", error))
        whose = context.ranks.get(process.pid)
        identity = None if whose is None or is_same_job(whose, rank.identity) else whose
        if not chosen:
            missing = missing_for("stacks", Unavailable(Reason.REFUSED, _ONE_OF_MANY))
            return Child(process=process, stacks=missing, identity=identity)
        stacks = _within(self._stacks(process.pid, context, native=False, deadline=deadline), _MOST_KEPT_OF_CHILD)
        after = take_settled_beat(context.procfs, process.pid)
        return Child(process=process.model_copy(update={"after": after}), stacks=stacks, identity=identity)


def _asks_by_threads(stacks: Stacks | Missing) -> bool:
    """Does its main thread call a service by gRPC, or an actor of Ray's, whose own threads hold the connection?"""
    if isinstance(stacks, Missing) or stacks.main is None:
        return False
    return any(frame.file.endswith(_BY_THREADS) for frame in stacks.stack(stacks.main))


def _require_ours(pid: int, rank: Rank, context: LookContext) -> None:
    """Raise NotPermitted unless a process is of the rank's user, whom it may have been given by a connection, and of
    its container: in another one the same number may be another user's.
    """
    require_below(context.procfs, pid, rank.stat.pid)
    if pid not in (rank.stat.pid, *rank.children, *rank.beside):
        here, there = (context.procfs.link(each, "ns/pid") for each in (rank.stat.pid, pid))
        if here != there:
            raise NotPermitted(f"process {pid} runs in another container than the rank: nothing of it is read")


def _within(stacks: Stacks | Missing, most: int) -> Stacks | Missing:
    """Return the stacks, or why they are not kept: their names and their number are the job's to choose."""
    cost = 0 if isinstance(stacks, Missing) else json_cost(stacks.model_dump_json().encode())
    if cost <= most:
        return stacks
    return missing_for(
        "stacks", Unavailable(Reason.REFUSED, f"they would take {cost} bytes of memory; at most {most} are kept")
    )


def by_rarity(processes: list[Process]) -> list[Process]:
    """Sort processes so that those in states that few share come first."""
    signs = {p.pid: (p.state, p.wchan, p.syscall.name if p.syscall is not None else None) for p in processes}
    counts = Counter(signs.values())
    return sorted(processes, key=lambda p: (counts[signs[p.pid]], p.pid))
