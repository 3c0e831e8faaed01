"""Next steps: real commands with the real pids and hosts in them."""

from collections.abc import Iterator

from collector.align.groups.signature_rules import ROOTED
from collector.align.observations import Observations
from collector.align.stacks.activity import blocked_children
from collector.align.stacks.lock_files import lock_of, name_of_lock
from collector.align.stacks.process_text import is_stopped
from collector.align.stacks.tables.row_types import WaitsOn
from collector.judge.fault import Fault
from collector.judge.report.advice import advice_of_fault, advice_of_lines
from shared.answer.diagnosis import NextStep, StackEvidence
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.plural import either
from shared.rank_sets import ranks_in_words
from shared.shell_commands import WHY_NONE, copyable
from shared.wire.setup import Setup
from shared.wire.snapshot import PolledLock

_BY_CAUSE = {
    Cause.DATALOADER: "find out what its DataLoader workers wait for: the snapshot has its children's stacks",
    Cause.CHECKPOINT: "check the file system it saves to or loads from",
    Cause.FILESYSTEM: "check the file system or the lock it waits for",
    Cause.PIPE_BLOCKED: "find the process that should read or write the other end of the pipe",
    Cause.DEBUGGER: "remove the breakpoint from the code, or attach to its terminal and continue",
    Cause.OOM: "give the node or cgroup more memory, or make the rank use less",
    Cause.EXCEPTION: "fix the exception; the other ranks do not see it and keep waiting",
    Cause.NETWORK: "check its network adapter and the host it talks to",
    Cause.COMPILE: "wait for the compilation, or clear a stale lock in its cache",
    Cause.GIL: "find the extension that holds the GIL",
}
_BY_KIND = {
    Kind.COLLECTIVE_MISMATCH: "compare the code paths to the operations that differ: what branches on rank or data?",
    Kind.ORDER_INVERSION: "make every rank issue the groups' operations in the same order",
    Kind.P2P_DEADLOCK: "let half of the ranks send first, or use batch_isend_irecv",
    Kind.P2P_UNMATCHED: "find the send or receive that the peer never reaches",
    Kind.STUCK_TOGETHER: "check network, GPUs and driver on these nodes; the records show no divergence",
    Kind.RANK_UNREACHABLE: "check the node: ping it, read its console and kernel log",
    Kind.RANK_MISSING: "find out whether the rank was ever started: read the scheduler's and launcher's logs",
    Kind.RANK_EXITED: "read the last lines of its log and restart the job: the other ranks will not notice",
    Kind.STARTUP_INCOMPLETE: "find out why these ranks were not started, or start the job with the right world size",
    Kind.STRAGGLER: "compare this rank's data, device clocks and neighbours on the node with the others'",
}


_COMMANDS = {"torchrun": "torchrun", "slurm": "srun", "openmpi": "mpirun", "mvapich": "mpirun", "pmi": "mpirun"}
"""What starts a job, by the launcher whose variables its ranks have."""
_MOST_RESUMED = 8
_NEVER_STOPPED = "DTt"
"""States in which a process cannot be stopped once more: blocked in the kernel, stopped, traced."""
_APART = "compare the code paths to these places: what branches on rank or data?"
_ALL_IN_RENDEZVOUS = (
    "compare what the ranks wait for: store address, port, rank and world size of each; "
    "a store that an earlier attempt has used may still hold its keys"
)
_ELSEWHERE = "look at the other replica groups: each is a job of its own, and torchft's lighthouse lists who has joined"
_ENDED = frozenset({Kind.RANK_EXITED, Kind.RANK_MISSING})
"""Kinds in which the culprit's log is all that is left of it."""
_OF_CODE = frozenset({Kind.COLLECTIVE_MISMATCH, Kind.ORDER_INVERSION, Kind.P2P_DEADLOCK, Kind.P2P_UNMATCHED})
"""Kinds whose cause is where ranks' code paths part."""
_UNRECORDED = "compare the calls and sizes in the ranks' stacks; check network, GPUs and driver on these nodes"


@costs_itself(lambda fault, cause, observations: ())
def next_steps_for(fault: Fault, cause: Cause, observations: Observations) -> tuple[NextStep, ...]:
    """Return what to do about `fault`, most useful first."""
    lock = fault.lock or _polled_by(fault.culprits, observations)
    if lock is not None:
        steps = [_of_lock(lock) if fault.lock is None or not fault.culprits else _of_holders(lock, fault, observations)]
    elif stopped := list(_of_stopped_children(fault, observations)):
        steps = stopped
    elif cause in _BY_CAUSE and fault.kind is not Kind.COLLECTIVE_MISMATCH:
        steps = [NextStep(text=_BY_CAUSE[cause])]
    else:
        steps = []
    if fault.kind is Kind.STUCK_TOGETHER and fault.op in ROOTED:
        steps.append(
            NextStep(text=f"compare the root (src or dst) that each rank passes to {fault.op}: no recorder stores it")
        )
    advice = list(advice_of_lines(observations))
    steps += advice
    everybody = fault.kind is Kind.STARTUP_INCOMPLETE and not fault.culprits
    if observations.wait_for_other_jobs(fault.victims) and not fault.culprits:
        return (*steps, NextStep(text=_ELSEWHERE, command="unhang jobs"))
    if everybody and len(fault.victims) == observations.roster.world_size:
        steps.append(NextStep(text=_ALL_IN_RENDEZVOUS))
    elif fault.kind in _BY_KIND and fault.lock is None and not (advice and fault.kind is Kind.STARTUP_INCOMPLETE):
        unrecorded = fault.kind is Kind.STUCK_TOGETHER and not observations.traces
        apart = unrecorded and sum(isinstance(each, StackEvidence) for each in fault.evidence) > 1
        steps.append(NextStep(text=_APART if apart else _UNRECORDED if unrecorded else _BY_KIND[fault.kind]))
    steps += advice_of_fault(fault, observations)
    on_culprits = [step for rank in fault.culprits[:2] for step in _commands(rank, fault.kind, observations)]
    if not on_culprits and not any(step.command for step in steps):
        on_culprits = [_where_it_shows(fault, observations)]
    steps += on_culprits
    if fault.group is None and fault.kind is not Kind.RANK_STOPPED and not observations.traces:
        steps += record_next_time(observations)
    return tuple(steps)


def _of_stopped_children(fault: Fault, observations: Observations) -> Iterator[NextStep]:
    """Resume the children of culprits that wait for them, where these were stopped by a signal."""
    for rank in fault.culprits[:2]:
        seen = observations.activities.get(rank)
        if seen is None or not seen.child or not observations.roster.live:
            continue
        view = observations.roster.ranks[rank]
        on = f" on {view.host}" if view.host else ""
        blocked = (child.process for child, _ in blocked_children(view.looks[-1].children))
        pids = [process.pid for process in blocked if is_stopped(process)]
        if pids:
            what = f"resume the child that rank {rank}{on} waits for: a signal has stopped it"
            yield NextStep(text=what, command=f"kill -CONT {' '.join(map(str, pids[:_MOST_RESUMED]))}")


def _polled_by(ranks: tuple[int, ...], observations: Observations) -> PolledLock | None:
    """The lock that one of these ranks waits for, if any does."""
    waiting = (rank for rank in ranks if rank in observations.activities)
    waiting = (rank for rank in waiting if WaitsOn.LOCK_FILE in observations.activities[rank].waits_on)
    locks = (lock_of(observations.roster.ranks[rank].looks[-1]) for rank in waiting)
    return next((lock for lock in locks if lock is not None), None)


def _of_lock(lock: PolledLock) -> NextStep:
    """What to do about a lock; only a file that is nothing else may be removed, and only when abandoned."""
    if lock.path is None:
        return NextStep(text="find out which lock file it is and who holds it")
    if lock.on_open_file:
        return NextStep(text=f"find out why what holds {name_of_lock(lock)} does not let go of it")
    if not lock.abandoned:
        return NextStep(text=f"find out what holds {lock.path}; remove it only once its holder is gone")
    text = "remove the lock that a killed process has left: the ranks go on by themselves"
    return NextStep(text=text, command=copyable("rm", operands=(lock.path,)))


def _of_holders(lock: PolledLock, fault: Fault, observations: Observations) -> NextStep:
    """What to do where ranks of the job hold the lock."""
    named = "the lock" if lock.path is None else name_of_lock(lock)
    who = ranks_in_words(fault.culprits)
    if any(map(observations.may_wait, fault.culprits)):
        return NextStep(text=f"have {who} let go of {named} before waiting for other ranks")
    return NextStep(text=f"find out why {who} {either(fault.culprits, 'does', 'do')} not let go of {named}")


def _commands(rank: int, kind: Kind, observations: Observations) -> list[NextStep]:
    view = observations.roster.ranks[rank]
    pid = view.identity.pid if view.identity is not None and not view.gone else None
    if pid is None or not observations.roster.live:
        return []
    on = f" on {view.host}" if view.host else ""
    if kind is Kind.RANK_STOPPED:
        return [NextStep(text=f"resume rank {rank}{on}", command=f"kill -CONT {pid}")]
    process, job = view.process, observations.roster.job
    if process is not None and (process.state in _NEVER_STOPPED or process.blocked_threads):
        text = f"show the stack of rank {rank}{on} again: nothing that attaches, for that may hang, too"
        native: tuple[str, ...] = ()
    else:
        text, native = f"show the stack of rank {rank}{on} with its native frames", ("--native",)
    return [
        about_job(text, "unhang", "stacks", "--rank", str(rank), *native, job=job),
        about_job(f"compare its stacks with the others'{on}", "unhang", "stacks", job=job),
    ]


def _where_it_shows(fault: Fault, observations: Observations) -> NextStep:
    """A command that shows what a fault rests on, where nothing can be done to its culprits themselves."""
    roster = observations.roster
    hosts = (roster.ranks[rank].host for rank in fault.culprits)
    silent = next((host for host in hosts if host is not None), None)
    if fault.kind is Kind.RANK_UNREACHABLE and silent is not None:
        command = copyable("ping", "-c", "3", operands=(silent,))
        return NextStep(text=f"find out whether {silent} answers at all", command=command)
    if fault.kind is Kind.STARTUP_INCOMPLETE:
        return about_job("check how the job was started", "unhang", "check", job=roster.job)
    has_stacks = any(view.stacks is not None for view in roster.ranks.values())
    if fault.kind not in _ENDED and has_stacks and (fault.kind in _OF_CODE or not observations.traces):
        return about_job("compare where the ranks are in their code", "unhang", "stacks", job=roster.job)
    if fault.kind not in _ENDED and observations.traces:
        return about_job("see how far each rank has got in each group", "unhang", "sequences", job=roster.job)
    return about_job("read what the ranks logged last", "unhang", "logs", job=roster.job)


def about_job(text: str, *words: str, job: str | None) -> NextStep:
    """A step with a command about `job`, whose name its owner chose; with none where it cannot be copied safely."""
    command = copyable(*words, operands=() if not job else (job,))
    return NextStep(text=text if command is not None else f"{text} ({WHY_NONE})", command=command)


def record_next_time(observations: Observations) -> Iterator[NextStep]:
    """Yield how to have a flight record the next time; nothing where PyTorch is in none of the ranks."""
    launchers = {view.identity.launcher for view in observations.roster.present() if view.identity is not None}
    if "torchrun" not in launchers and _runs_no_torch(observations):
        return
    commands = {_COMMANDS[name] for name in launchers if name in _COMMANDS} or {"torchrun"}
    yield NextStep(
        text="next time, start the job under the probe: its sequence numbers show which operation each rank is in",
        command=f"unhang run -- {min(commands)} …",
    )


def _runs_no_torch(observations: Observations) -> bool:
    """Was it seen what ranks have loaded, and was PyTorch never among it?"""
    newest = (view.looks[-1].setup for view in observations.roster.present() if view.looks)
    read = [setup for setup in newest if isinstance(setup, Setup) and setup.versions.python is not None]
    return bool(read) and all(setup.versions.torch is None and setup.nccl_loaded is None for setup in read)
