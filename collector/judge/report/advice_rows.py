"""What to do, as data: when a row holds, what it says, and its command.

Each section gives the first of its rows that holds, or none. A row speaks of nothing that is not at hand: what it needs
to be true stands in its `holds`, and `tests/build/jobs/advice_rules.py` scores what is printed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from collector.judge.logs.connections import AT_HOME, AT_PEER, FLUSHED
from collector.judge.report.case import Case
from shared.answer.words import Cause, Kind
from shared.shell_commands import copyable


def _always(_: Case) -> bool:
    return True


@dataclass(frozen=True)
class AdviceRow:
    """One piece of advice. Empty `causes` or `kinds`: all of them; `{who}` and the like are words of the case."""

    text: str
    causes: tuple[Cause, ...] = ()
    kinds: tuple[Kind, ...] = ()
    holds: Callable[[Case], object] = _always
    command: Callable[[Case], str | None] | None = None

    def fits(self, case: Case) -> bool:
        """Does it hold of a case?"""
        return (
            (not self.causes or case.cause in self.causes)
            and (not self.kinds or case.kind in self.kinds)
            and bool(self.holds(case))
        )


def _named(case: Case) -> bool:
    return not case.names_nobody


_CAUSES = (
    AdviceRow(
        "wait, if this work may take so long; else read {at}: what does {who} repeat there, or wait for?",
        kinds=(Kind.HELD_UP,),
        holds=lambda c: c.at,
    ),
    AdviceRow(
        "wait, if this work may take so long; else see in its stack and in its log what it repeats",
        kinds=(Kind.HELD_UP,),
    ),
    AdviceRow(
        "see why the DataLoader of {who} gets no batch: {child}",
        (Cause.DATALOADER,),
        holds=lambda c: c.seen is not None and c.seen.child,
    ),
    AdviceRow(
        "find out what the DataLoader's workers wait for: dump the stacks of the child processes, too, with "
        "`py-spy dump --subprocesses`",
        (Cause.DATALOADER,),
    ),
    AdviceRow("check the file system it saves to or loads from", (Cause.CHECKPOINT,)),
    AdviceRow("check the file system or the lock it waits for", (Cause.FILESYSTEM,)),
    AdviceRow("find the process that should read or write the other end of the pipe", (Cause.PIPE_BLOCKED,)),
    AdviceRow("remove the breakpoint from the code, or attach to its terminal and continue", (Cause.DEBUGGER,)),
    AdviceRow(
        "make the rank use less of its device's memory (a smaller batch, shorter sequences, more sharding), and see "
        "what else runs on that device",
        (Cause.OOM,),
        holds=lambda c: c.of_device_memory,
    ),
    AdviceRow("give the node or cgroup more memory, or make the rank use less", (Cause.OOM,)),
    AdviceRow("fix the exception; the other ranks do not see it and keep waiting", (Cause.EXCEPTION,)),
    AdviceRow(
        "set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to an interface that the other nodes can reach: `ip -br addr` "
        "lists them",
        (Cause.NETWORK,),
        (Kind.STARTUP_INCOMPLETE,),
    ),
    AdviceRow(
        "see why memory is not registered with the adapter there: the limit of locked memory (`ulimit -l` in the job), "
        "the driver module for device memory (`lsmod | grep peermem`), a buffer that was freed while in use",
        holds=lambda c: c.statuses and c.statuses <= AT_HOME.keys(),
    ),
    AdviceRow(
        "read what the other end logged: its adapter refused the request, so the link had carried it",
        (Cause.NETWORK,),
        holds=lambda c: c.statuses and c.statuses <= AT_PEER.keys(),
    ),
    AdviceRow(
        "look for the first error of this connection, earlier in this log or in that of the other end: a flush follows "
        "another error",
        (Cause.NETWORK,),
        holds=lambda c: c.statuses == {FLUSHED},
    ),
    AdviceRow("check its network adapter and the host it talks to", (Cause.NETWORK,), holds=_named),
    AdviceRow(
        "check the link between {link}: the adapters at both ends and the switch ports, by their counters of errors",
        (Cause.NETWORK,),
        holds=lambda c: c.link,
    ),
    AdviceRow(
        "reset the adapter or reboot the node: no signal ends a wait in its driver",
        (Cause.NETWORK,),
        (Kind.RANK_NOT_JOINED,),
        lambda c: c.of_kernel_or_driver,
    ),
    AdviceRow(
        "check both ends of what failed: whether the process at each was still alive, and the adapters and the path "
        "between them",
        (Cause.NETWORK,),
    ),
    AdviceRow(
        "find out which key {asks_store_at} waits for, and which rank, or who outside the job, should have set it",
        (Cause.RENDEZVOUS,),
        (Kind.STUCK_TOGETHER, Kind.RANK_NOT_JOINED),
        lambda c: c.asks_store_at,
    ),
    AdviceRow("wait for the compilation, or clear a stale lock in its cache", (Cause.COMPILE,)),
    AdviceRow("find the extension that holds the GIL", (Cause.GIL,)),
    AdviceRow("check the file system from which it imports", (Cause.IMPORT,)),
    AdviceRow(
        "take the device out of use and test it (`dcgmi diag -r 3`, `rocm-smi`): a fault that its driver reports comes "
        "back",
        (Cause.GPU_FAULT,),
        holds=lambda c: c.of_kernel_or_driver,
    ),
    AdviceRow(
        "find out what takes {who} longer than the others at {at}",
        (Cause.USER_CODE,),
        (Kind.STRAGGLER,),
        lambda c: c.at,
    ),
    AdviceRow(
        "read {at}, to which {branch} leads: the others are past it, and {who} must come back from there or never go "
        "there alone",
        (Cause.USER_CODE,),
        (Kind.RANK_NOT_JOINED,),
        lambda c: c.at and c.branch,
    ),
    AdviceRow(
        "read {at}: find out what keeps {who} there, or why the others are not there",
        (Cause.USER_CODE,),
        (Kind.RANK_NOT_JOINED,),
        lambda c: c.at,
    ),
    AdviceRow(
        "find out who ended it: `dmesg -T` on its node shows the OOM killer, the scheduler's log limits and preemption",
        (Cause.SIGNAL,),
        (Kind.RANK_EXITED,),
    ),
)
"""By what holds the culprit."""

_ARGUMENTS = (
    AdviceRow(
        "compare the root (src or dst) that each rank passes to {op}: no recorder stores it", holds=lambda c: c.rooted
    ),
)

_APART = "compare the code paths to these places: what branches on rank or data?"
_KINDS = (
    AdviceRow(
        "add what {missing} left, logs, stacks or flight records: whoever never came to {op} is among them",
        holds=lambda c: not c.live and c.lacks_members,
    ),
    AdviceRow(
        "find out why the sizes or types differ: uneven last batches, filtered data, or parameters that only some "
        "ranks use",
        kinds=(Kind.COLLECTIVE_MISMATCH,),
        holds=lambda c: c.same_operation,
    ),
    AdviceRow(
        "compare {sides}: what branches on rank or data?", kinds=(Kind.COLLECTIVE_MISMATCH,), holds=lambda c: c.sides
    ),
    AdviceRow(
        "compare the code paths to the operations that differ: what branches on rank or data?",
        kinds=(Kind.COLLECTIVE_MISMATCH,),
    ),
    AdviceRow("make every rank issue the groups' operations in the same order", kinds=(Kind.ORDER_INVERSION,)),
    AdviceRow("let half of the ranks send first, or use batch_isend_irecv", kinds=(Kind.P2P_DEADLOCK,)),
    AdviceRow("find the send or receive that the peer never reaches", kinds=(Kind.P2P_UNMATCHED,)),
    AdviceRow(_APART, kinds=(Kind.STUCK_TOGETHER,), holds=lambda c: c.in_several_places),
    AdviceRow(
        "compare the calls and sizes in the ranks' stacks",
        kinds=(Kind.STUCK_TOGETHER,),
        holds=lambda c: not c.recorded and c.has_stacks,
    ),
    AdviceRow(
        "check the network between these ranks; the records show no divergence",
        (Cause.UNKNOWN,),
        (Kind.STUCK_TOGETHER,),
        holds=lambda c: c.recorded and c.accounts_for_all and c.backends and "nccl" not in c.backends,
    ),
    AdviceRow(
        "check network, GPUs and driver on these nodes; the records show no divergence",
        (Cause.UNKNOWN,),
        (Kind.STUCK_TOGETHER,),
        lambda c: c.recorded and c.accounts_for_all and c.backends,
    ),
    AdviceRow(
        "look at these ranks while they hang: what {op} waits for stands in flight records and native stacks, and in "
        "no log",
        (Cause.UNKNOWN,),
        (Kind.STUCK_TOGETHER,),
        lambda c: not (c.recorded or c.has_stacks or c.statuses) and c.fault.victims,
    ),
    AdviceRow(
        "get a stack of {who}, or more of {whose} log: nothing here shows where in the code {they}",
        kinds=(Kind.RANK_NOT_JOINED,),
        holds=lambda c: _named(c) and not c.live and not (c.seen and c.seen.frames) and c.cause is Cause.UNKNOWN,
    ),
    AdviceRow(
        "check the node: ping it, read its console and kernel log",
        kinds=(Kind.RANK_UNREACHABLE,),
        holds=lambda c: c.live,
    ),
    AdviceRow(
        "check the node: its console, its kernel log, the scheduler's account of it", kinds=(Kind.RANK_UNREACHABLE,)
    ),
    AdviceRow(
        "find out whether {who} was ever started: read the scheduler's and launcher's logs",
        kinds=(Kind.RANK_MISSING,),
        holds=_named,
    ),
    AdviceRow(
        "read the last lines of its log and restart the job: the other ranks will not notice",
        kinds=(Kind.RANK_EXITED,),
        holds=lambda c: c.live,
    ),
    AdviceRow("read the last lines of its log: what ended it stands there, if anywhere", kinds=(Kind.RANK_EXITED,)),
    AdviceRow(
        "compare what the ranks wait for: store address, port, rank and world size of each; a store that an earlier "
        "attempt has used may still hold its keys",
        kinds=(Kind.STARTUP_INCOMPLETE,),
        holds=lambda c: c.names_nobody and len(c.fault.victims) == c.observations.roster.world_size,
    ),
    AdviceRow(
        "find out why {who} did not start, or start the job with the right world size",
        kinds=(Kind.STARTUP_INCOMPLETE,),
        holds=lambda c: _named(c) and c.cause is not Cause.NETWORK,
    ),
    AdviceRow(
        "find out why process {sibling} does not go on: it was started with the ranks that wait, and never joined them",
        kinds=(Kind.STARTUP_INCOMPLETE,),
        holds=lambda c: c.sibling,
    ),
    AdviceRow(
        "find out which ranks were not started, and why, or start the job with the right world size",
        kinds=(Kind.STARTUP_INCOMPLETE,),
        holds=lambda c: c.cause is not Cause.NETWORK,
    ),
    AdviceRow(
        "compare this rank's data, device clocks and neighbours on the node with the others'",
        kinds=(Kind.STRAGGLER,),
        holds=lambda c: c.live,
    ),
)
"""By what is wrong between the ranks."""

_VERSIONS = (
    AdviceRow(
        "{nccl} ({report})",
        (Cause.UNKNOWN, Cause.COMMUNICATION),
        (Kind.STUCK_TOGETHER, Kind.RANK_NOT_JOINED),
        lambda c: c.names_nobody and c.nccl_fault is not None,
    ),
)
"""What is known of the version of NCCL, where nobody is to blame."""

_OF_NODES = (Cause.UNKNOWN, Cause.NETWORK, Cause.GPU_FAULT, Cause.COMMUNICATION, Cause.DEVICE_SYNC)
_NODES = (
    AdviceRow(
        "once the job has ended, test its nodes and the links between them",
        _OF_NODES,
        (Kind.STUCK_TOGETHER,),
        lambda c: len(c.hosts) > 1,
        command=lambda c: copyable("unhang", "preflight", "--ssh", "--hosts", ",".join(c.hosts)),
    ),
    AdviceRow(
        "once the job has ended, test {host} alone, on that node",
        _OF_NODES,
        (Kind.STUCK_TOGETHER,),
        lambda c: c.hosts,
        command=lambda _: "unhang preflight",
    ),
)
_LINKS_IN_A_NODE = (
    AdviceRow(
        "try NCCL_P2P_DISABLE=1: where that helps, the GPUs cannot reach each other's memory; switch off ACS on the "
        "PCIe bridges, and the IOMMU or set it to pass through (`iommu=pt`)",
        kinds=(Kind.STUCK_TOGETHER,),
        holds=lambda c: c.is_first and len(c.hosts) == 1 and len(c.fault.victims) > 1 and c.backends == {"nccl"},
    ),
)
_NEXT_TIME = (
    AdviceRow(
        "next time, set TORCH_NCCL_ENABLE_TIMING=1: the records then show which devices began the operation and which "
        "did not",
        (Cause.UNKNOWN,),
        (Kind.STUCK_TOGETHER,),
        lambda c: c.backends == {"nccl"} and not c.tells_starts,
    ),
)

BEFORE_LINES = (_CAUSES, _ARGUMENTS)
"""Sections that come before what single lines of the logs call for."""
AFTER_LINES = (_KINDS, _VERSIONS, _NODES, _LINKS_IN_A_NODE)
NEXT_TIME = (_NEXT_TIME,)
