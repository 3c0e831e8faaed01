"""Steps that let a rank go on: it is held by a lock, a signal, a frozen cgroup, or whoever has a pipe's other end."""

from collections.abc import Iterator

from collector.align.observations import Observations
from collector.align.stacks.activity import blocked_children
from collector.align.stacks.lock_files import holder_in_words, lock_of, name_of_lock
from collector.align.stacks.process_text import is_stopped
from collector.align.stacks.tables.row_types import WaitsOn
from collector.judge.fault import Fault
from collector.judge.hardware.descriptors import pipe_of
from collector.judge.report.case import Case
from collector.judge.trails.ask import steps_to_ask
from shared.answer.diagnosis import NextStep
from shared.answer.words import Cause
from shared.plural import either
from shared.rank_sets import ranks_in_words
from shared.shell_commands import copyable, shell_word
from shared.wire.snapshot import PolledLock, Process

_MOST_RESUMED = 8
_MOST_CULPRITS = 2
_MOST_HOLDERS = 4
_CGROUP_V2, _CGROUP_V1 = "cgroup.freeze", "freezer.state"


def steps_to_release(case: Case) -> list[NextStep]:
    """Return what lets the culprits go on, where the evidence says what holds them; [] where it does not."""
    fault, observations = case.fault, case.observations
    lock = fault.lock or _polled_by(fault.culprits, observations)
    if lock is not None:
        return [_of_lock(lock) if fault.lock is None or not fault.culprits else _of_holders(lock, case)]
    if not case.live:
        return []
    found = [*_of_stopped_children(fault, observations), *_of_frozen(fault, observations)]
    found += steps_to_ask(fault.trails) if fault.is_owed_elsewhere else ()
    return found or (list(_of_pipes(fault, observations)) if case.cause is Cause.PIPE_BLOCKED else [])


def _of_stopped_children(fault: Fault, observations: Observations) -> Iterator[NextStep]:
    """Resume the children of culprits that wait for them, where these were stopped by a signal."""
    for rank in fault.culprits[:_MOST_CULPRITS]:
        seen = observations.activities.get(rank)
        if seen is None or not seen.child:
            continue
        view = observations.roster.ranks[rank]
        on = f" on {view.host}" if view.host else ""
        blocked = (child.process for child, _ in blocked_children(view.looks[-1].children))
        pids = [process.pid for process in blocked if is_stopped(process)]
        if pids:
            what = f"resume the child that rank {rank}{on} waits for: a signal has stopped it"
            command = f"kill -CONT {' '.join(map(str, pids[:_MOST_RESUMED]))}"
            yield NextStep(text=what, command=command, frees=True)


def _of_frozen(fault: Fault, observations: Observations) -> Iterator[NextStep]:
    """Thaw the cgroups of culprits, or of the children that these wait for, each once; whoever froze a container may do
    it by the container's name.
    """
    told: set[str] = set()
    for rank, whose, process in _held_up_by(fault.culprits, observations):
        file = process.frozen_by
        if file is None or file in told or len(told) == _MOST_CULPRITS:
            continue
        told.add(file)
        host = observations.roster.ranks[rank].host
        on = f" on {host}" if host else ""
        word = "0" if file.endswith(_CGROUP_V2) else "THAWED"
        command = f"echo {word} > {shell_word(file)}" if copyable(file) is not None else None
        who = "`docker unpause`, `podman unpause` or `systemctl thaw` does the same by the unit's name"
        yield NextStep(text=f"thaw the cgroup of {whose}rank {rank}{on}, as root: {who}", command=command, frees=True)


def _held_up_by(ranks: tuple[int, ...], observations: Observations) -> Iterator[tuple[int, str, Process]]:
    """The processes of these ranks, and the children that they wait for, each with its rank and what it is to that."""
    for view in (observations.roster.ranks[rank] for rank in ranks):
        yield from ((view.rank, "", process) for process in (view.process,) if process is not None)
        if any(each.child for each in observations.seen([view.rank])):
            blocked = (child.process for child, _ in blocked_children(view.looks[-1].children))
            yield from ((view.rank, f"the child {process.pid} of ", process) for process in blocked)


def _of_pipes(fault: Fault, observations: Observations) -> Iterator[NextStep]:
    for rank in fault.culprits[:_MOST_CULPRITS]:
        pipe = pipe_of(observations.roster.ranks[rank])
        if pipe is None:
            continue
        if not pipe.others:
            who = f"only rank {rank} itself" if pipe.own else "no process"
            text = f"{who} holds the other end of the pipe of rank {rank}: nothing can come, so end what waits there"
        else:
            does = "writes nothing into" if pipe.reads else "does not read"
            text = f"find out why {pipe.others[0]} {does} the pipe (fd {pipe.fd}) of rank {rank}, or end it"
        yield NextStep(text=text, frees=bool(pipe.others))


def _polled_by(ranks: tuple[int, ...], observations: Observations) -> PolledLock | None:
    """The lock that one of these ranks waits for, if any does."""
    waiting = (rank for rank in ranks if rank in observations.activities)
    waiting = (rank for rank in waiting if WaitsOn.LOCK_FILE in observations.activities[rank].waits_on)
    locks = (lock_of(observations.roster.ranks[rank].looks[-1]) for rank in waiting)
    return next((lock for lock in locks if lock is not None), None)


def _of_lock(lock: PolledLock) -> NextStep:
    """What to do about a lock; only a file that is nothing else may be removed, and only when abandoned."""
    if lock.path is None:
        return NextStep(text="find out which lock file it is and who holds it", frees=True)
    if lock.holders:
        those = ", ".join(map(holder_in_words, lock.holders[:_MOST_HOLDERS]))
        who, does = either(lock.holders, "process", "processes"), either(lock.holders, "does", "do")
        return NextStep(text=f"find out why {who} {those} {does} not let go of {name_of_lock(lock)}", frees=True)
    if lock.on_open_file:
        return NextStep(text=f"find out why what holds {name_of_lock(lock)} does not let go of it", frees=True)
    if not lock.abandoned:
        return NextStep(text=f"find out what holds {lock.path}; remove it only once its holder is gone", frees=True)
    text = "remove the lock that a killed process has left: the ranks go on by themselves"
    return NextStep(text=text, command=copyable("rm", operands=(lock.path,)), frees=True)


def _of_holders(lock: PolledLock, case: Case) -> NextStep:
    """What to do where ranks of the job hold the lock."""
    named = "the lock" if lock.path is None else name_of_lock(lock)
    culprits, who = case.fault.culprits, ranks_in_words(case.fault.culprits)
    if case.locks_in_circle:
        return NextStep(text=f"have {who} take their locks in one order: each holds one that another waits for")
    if any(map(case.observations.may_wait, culprits)):
        return NextStep(text=f"have {who} let go of {named} before waiting for other ranks")
    return NextStep(text=f"find out why {who} {either(culprits, 'does', 'do')} not let go of {named}")
