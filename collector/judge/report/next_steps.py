"""Next steps: real commands with the real pids and hosts in them."""

from collector.align.groups.signature_rules import ROOTED
from collector.align.observations import Observations
from collector.judge.fault import Fault
from shared.answer.diagnosis import NextStep, StackEvidence
from shared.answer.words import Cause, Kind
from shared.commands import WHY_NONE, copyable

_BY_CAUSE = {
    Cause.DATALOADER: "find out what its DataLoader workers wait for: the snapshot has its children's stacks",
    Cause.CHECKPOINT: "check the file system it saves to or loads from",
    Cause.FILESYSTEM: "check the file system or the lock it waits for",
    Cause.PIPE_BLOCKED: "find the process that should read or write the other end of the pipe",
    Cause.DEBUGGER: "remove the breakpoint from the code, or attach to its terminal and continue",
    Cause.OOM: "give the node or cgroup more memory, or make the rank use less",
    Cause.EXCEPTION: "fix the exception; the other ranks do not see it and keep waiting",
    Cause.NETWORK: "check the host it talks to",
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


_NEVER_STOPPED = "DTt"
"""States in which a process cannot be stopped once more: blocked in the kernel, stopped, traced."""
_APART = "compare the code paths to these places: what branches on rank or data?"
_UNRECORDED = "compare the calls and sizes in the ranks' stacks; check network, GPUs and driver on these nodes"


def next_steps_for(fault: Fault, cause: Cause, observations: Observations) -> tuple[NextStep, ...]:
    """Return what to do about `fault`, most useful first."""
    steps = (
        [NextStep(text=_BY_CAUSE[cause])] if cause in _BY_CAUSE and fault.kind is not Kind.COLLECTIVE_MISMATCH else []
    )
    if fault.kind is Kind.STUCK_TOGETHER and fault.op in ROOTED:
        steps.append(
            NextStep(text=f"compare the root (src or dst) that each rank passes to {fault.op}: no recorder stores it")
        )
    if fault.kind in _BY_KIND:
        unrecorded = fault.kind is Kind.STUCK_TOGETHER and not observations.traces
        apart = unrecorded and sum(isinstance(each, StackEvidence) for each in fault.evidence) > 1
        steps.append(NextStep(text=_APART if apart else _UNRECORDED if unrecorded else _BY_KIND[fault.kind]))
    for rank in fault.culprits[:2]:
        steps.extend(_commands(rank, fault.kind, observations))
    if fault.group is None and fault.kind is not Kind.RANK_STOPPED and not observations.traces:
        steps.append(record_next_time())
    return tuple(steps)


def _commands(rank: int, kind: Kind, observations: Observations) -> list[NextStep]:
    view = observations.roster.ranks[rank]
    pid = view.identity.pid if view.identity is not None and not view.gone else None
    if pid is None or not observations.roster.live:
        return []
    on = f" on {view.host}" if view.host else ""
    if kind is Kind.RANK_STOPPED:
        return [NextStep(text=f"resume rank {rank}{on}", command=f"kill -CONT {pid}")]
    process = view.process
    if process is not None and (process.state in _NEVER_STOPPED or process.blocked_threads):
        dump = NextStep(
            text=f"show all threads of rank {rank}{on} without stopping it: a tool that attaches may hang, too",
            command=f"py-spy dump --nonblocking --pid {pid}",
        )
    else:
        dump = NextStep(
            text=f"show all threads of rank {rank}{on}, including native frames",
            command=f"py-spy dump --native --pid {pid}",
        )
    return [
        dump,
        about_job(f"compare its stacks with the others'{on}", "unhang", "stacks", job=observations.roster.job),
    ]


def about_job(text: str, *words: str, job: str | None) -> NextStep:
    """A step with a command about `job`, whose name its owner chose; with none where it cannot be copied safely."""
    command = copyable(*words, operands=() if not job else (job,))
    return NextStep(text=text if command is not None else f"{text} ({WHY_NONE})", command=command)


def record_next_time() -> NextStep:
    """How to have a flight record the next time."""
    return NextStep(
        text="next time, start the job under the probe: its sequence numbers show which operation each rank is in",
        command="unhang run -- torchrun …",
    )
