"""What nodes tell refines a fault: its cause, its evidence and, where all are stuck together, the suspect link.

It never makes a fault and never names a culprit.

1. A fault of ranks: what the kernel tells of those processes and of their GPUs; the rest of their node is only shown.
2. All stuck together: a node with a broken GPU or link, while most have none, is where to look. A broken link is told
   with both ends. Then what devices do, and which is unlike the others: `odd_parts.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import compress

from collector.align.node_facts import NodeFacts, breaks_device, breaks_network, gpu_trouble, is_device
from collector.align.observations import Observations
from collector.align.roster import ByRank, RankView
from collector.align.stacks.activity import Activity
from collector.align.stacks.tables.kernel_facts import stack_row
from collector.align.stacks.tables.row_types import Told
from collector.align.thresholds import is_majority
from collector.align.xids import Blame, blame_of, xid_in_words
from collector.judge.fault import Fault
from collector.judge.hardware.odd_parts import with_odd_parts
from collector.judge.hardware.oom_kills import REMARK, are_all, unseen_kills
from collector.judge.report.findings import cause_of
from collector.judge.report.summaries import summary_of
from shared.answer.diagnosis import Evidence, GpuEvidence, KernelEvidence, Link, LinkEnd, ProcessEvidence
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.rank_sets import fold
from shared.wire.devices import Gpu
from shared.wire.kernel_events import KERNEL_WORDS, KernelEvent, KernelEventKind

PROVES_NOTHING = "a hardware fault on one node can hang the whole job, but does not prove that it caused this hang"
OF_A_PROGRAM = (
    "an Xid of this kind is a program's own fault as a rule; its work on that GPU is gone, and others may wait for it"
)
_MOST_EVENTS = 8
_MOST_LINKS = 4
_ENDED = frozenset({Kind.RANK_EXITED, Kind.RANK_MISSING})
_OPEN = frozenset({Cause.UNKNOWN, Cause.DEVICE_SYNC, Cause.COMMUNICATION})
_OPEN_WHEN_ENDED = frozenset({Cause.UNKNOWN, Cause.SIGNAL, Cause.EXCEPTION})
_OF_THE_PROGRAM = frozenset({Kind.COLLECTIVE_MISMATCH, Kind.ORDER_INVERSION, Kind.P2P_DEADLOCK})
"""Kinds that no hardware brings about."""
_SILENT = frozenset({KernelEventKind.LINK_UP})


@costs_itself(lambda fault, observations: fault)
def with_nodes(fault: Fault, observations: Observations) -> Fault:
    """Refine a fault by what its nodes tell."""
    if fault.kind in _OF_THE_PROGRAM:
        return fault
    if fault.culprits:
        return _with_culprits(fault, observations)
    if fault.kind is not Kind.STUCK_TOGETHER:
        return fault
    return with_odd_parts(_with_suspects(fault, observations), observations)


def _with_culprits(fault: Fault, observations: Observations) -> Fault:
    """Step 1."""
    views = [observations.roster.ranks[rank] for rank in fault.culprits]
    evidence = [item for view in views for item in (*_of_node(view, observations), *_of_threads(view, observations))]
    causes = {_cause(view, fault, observations) for view in views}
    cause = causes.pop() if len(causes) == 1 else None
    changed = replace(fault, evidence=(*fault.evidence, *evidence)) if evidence else fault
    kills = [(view, unseen_kills(view, observations)) for view in views]
    if any(are_all(view, found, observations.roster) for view, found in kills):
        changed = replace(changed, remarks=(*changed.remarks, REMARK))
    return changed if cause is None else replace(changed, cause=cause)


def _cause(view: RankView, fault: Fault, observations: Observations) -> Cause | None:
    """A better cause than the fault has; None where there is none."""
    now = cause_of(replace(fault, culprits=(view.rank,)), observations)
    mine = observations.kernel_on(view.rank)
    if fault.kind in _ENDED:
        kills = unseen_kills(view, observations)
        return _cause_of_end(now, [*mine, *kills] if are_all(view, kills, observations.roster) else mine)
    row = stack_row(_kernel_stack(view, mine))
    if row is not None and now in (Cause.UNKNOWN, Cause.USER_CODE):
        return row.cause
    sick = any(map(gpu_trouble, observations.gpus_of(view.rank)))
    broken = sick or any(breaks_device(event) for event in mine)
    may_be = now in _OPEN or (now is Cause.USER_CODE and _is_in_torch(view, observations.activities))
    return Cause.GPU_FAULT if broken and may_be and fault.kind is Kind.RANK_NOT_JOINED else None


def _is_in_torch(view: RankView, activities: ByRank[Activity]) -> bool:
    """Has its code called PyTorch, in a frame that tells nothing? A launch on a lost GPU may not come back."""
    activity = activities.get(view.rank)
    return activity is not None and activity.told is Told.IN_LIBRARY and "/torch/" in (activity.frames[-1].file or "")


def _cause_of_end(now: Cause, events: Iterable[KernelEvent]) -> Cause | None:
    told = list(events)
    if any(event.kind is KernelEventKind.OOM_KILL for event in told):
        return Cause.OOM
    if now not in _OPEN_WHEN_ENDED:
        return None
    if any(breaks_device(event) for event in told):
        return Cause.GPU_FAULT
    if any(map(_of_program, told)):
        return Cause.EXCEPTION
    crashed = any(event.kind is KernelEventKind.CRASH for event in told)
    return Cause.SIGNAL if crashed and now is Cause.UNKNOWN else None


def _kernel_stack(view: RankView, events: Iterable[KernelEvent]) -> tuple[str, ...]:
    """Where in the kernel a rank in state D is: by its own stack, else by a hung-task line.

    Without CAP_SYS_ADMIN nobody may read /proc/PID/stack; what the kernel prints by itself may be had with CAP_SYSLOG.
    """
    process = view.process
    if process is None or process.state != "D" or view.gone:
        return ()
    told = (event.stack for event in events if event.kind is KernelEventKind.HUNG_TASK and event.stack)
    return process.kernel_stack or next(told, ())


def _of_threads(view: RankView, observations: Observations) -> Iterable[Evidence]:
    """What the kernel holds a rank in: its main thread, and others beside it."""
    process = view.process
    if process is None or view.gone:
        return
    stack = _kernel_stack(view, observations.kernel_on(view.rank))
    row = stack_row(stack)
    if row is not None:
        text = f"rank {view.rank} is {row.label}: {' < '.join(stack[:4])}"
        yield ProcessEvidence(ranks=str(view.rank), text=text, host=view.host, pid=process.pid, state=process.state)
    if process.lock_holders:
        held = ", ".join(f"pid {holder.pid} ({holder.name})" for holder in process.lock_holders)
        text = f"the file lock that rank {view.rank} waits for is held by {held}"
        yield ProcessEvidence(ranks=str(view.rank), text=text, host=view.host, pid=process.lock_holders[0].pid)
    for thread in process.blocked_threads:
        held_in = stack_row(thread.kernel_stack)
        where = f" in {thread.syscall}()" if thread.syscall else ""
        what = held_in.label if held_in is not None else f"in uninterruptible sleep{where}"
        text = f"thread {thread.tid} ({thread.name}) of rank {view.rank} is {what}"
        yield ProcessEvidence(ranks=str(view.rank), text=text, host=view.host, pid=process.pid, state="D")


def _of_node(view: RankView, observations: Observations) -> Iterable[Evidence]:
    """Lines and GPUs that concern the rank, then what else its node tells of broken parts."""
    facts = observations.facts_of(view.rank)
    mine = [*observations.kernel_on(view.rank), *unseen_kills(view, observations)]
    others = [e for e in facts.events if e not in mine and (breaks_device(e) or breaks_network(e, facts.events))]
    others += [event for event in facts.events if event.kind is KernelEventKind.STORAGE]
    for event in [*mine, *others][:_MOST_EVENTS]:
        if event.kind not in _SILENT:
            yield kernel_evidence(event, f"the kernel of {facts.host}", facts.host, (view.rank,))
    for gpu in observations.gpus_of(view.rank):
        if gpu_trouble(gpu) is not None:
            yield _gpu_evidence(gpu, facts, (view.rank,))


def _with_suspects(fault: Fault, observations: Observations) -> Fault:
    """Step 2."""
    hosts = observations.roster.by_known_host(fault.victims)
    broken = {host: _broken(observations.nodes[host]) for host in hosts if host in observations.nodes}
    suspects = {host: facts for host, facts in broken.items() if facts.events or facts.gpus}
    if not suspects:
        return fault
    evidence = [item for host, facts in suspects.items() for item in _all_evidence(facts, hosts[host])]
    if len(suspects) > 1 and is_majority(
        len(suspects), len(hosts)
    ):  # a habit of these nodes, or a fault of what they share
        return replace(fault, evidence=(*fault.evidence, *evidence))
    networks = {host: facts for host, facts in suspects.items() if _network_events(facts)}
    devices = any(
        facts.gpus or any(_breaks_gpu(e, observations.nodes[host]) for e in facts.events)
        for host, facts in suspects.items()
    )
    found = Cause.GPU_FAULT if devices else Cause.NETWORK if networks else Cause.UNKNOWN
    cause = found if fault.cause in (None, Cause.UNKNOWN) else fault.cause
    told = "; ".join(f"{host} reports {_in_words(facts)}" for host, facts in suspects.items())
    return replace(
        fault,
        cause=cause,
        said=f"{fault.said or summary_of(fault, cause, observations)}; {told}",
        evidence=(*fault.evidence, *evidence),
        links=(*fault.links, *_links(networks, hosts)),
        remarks=(*fault.remarks, PROVES_NOTHING if devices or networks else OF_A_PROGRAM),
    )


def _of_program(event: KernelEvent) -> bool:
    """Is it an Xid that a program causes as a rule? Its kernels are gone from that GPU, and others wait for them."""
    return event.kind is KernelEventKind.XID and blame_of(event.code) is Blame.PROGRAM


def _breaks_gpu(event: KernelEvent, facts: NodeFacts) -> bool:
    """A PCIe error may be any device's: it is a GPU's where the driver knows that address."""
    if event.kind is KernelEventKind.PCIE_ERROR:
        return event.device is not None and any(is_device(gpu, event.device) for gpu in facts.gpus)
    return breaks_device(event)


def _network_events(facts: NodeFacts) -> list[KernelEvent]:
    return [event for event in facts.events if breaks_network(event, facts.events)]


def _broken(facts: NodeFacts) -> NodeFacts:
    told = (breaks_device(event) or breaks_network(event, facts.events) or _of_program(event) for event in facts.events)
    events = tuple(compress(facts.events, told))
    return replace(facts, events=events, gpus=tuple(gpu for gpu in facts.gpus if gpu_trouble(gpu) is not None))


def _links(networks: Mapping[str, NodeFacts], hosts: Mapping[str, list[int]]) -> tuple[Link, ...]:
    """Each adapter with trouble, towards every other node; to any of them where they are many."""
    links: list[Link] = []
    for host, facts in networks.items():
        others = [other for other in hosts if other != host]
        ends = [LinkEnd(rank=min(hosts[o]), host=o) for o in others] if len(others) <= _MOST_LINKS else [LinkEnd()]
        names = dict.fromkeys(event.interface or event.device for event in _network_events(facts))
        start = LinkEnd(rank=min(hosts[host]), host=host)
        links += [Link(from_=start, to=end, interface=name) for name in names for end in ends]
    return tuple(links)


def _all_evidence(facts: NodeFacts, ranks: Iterable[int]) -> Iterable[Evidence]:
    here = tuple(ranks)
    kernel = f"the kernel of {facts.host}"
    yield from (kernel_evidence(event, kernel, facts.host, here) for event in facts.events[:_MOST_EVENTS])
    yield from (_gpu_evidence(gpu, facts, here) for gpu in facts.gpus[:_MOST_EVENTS])


def kernel_evidence(event: KernelEvent, kernel: str, host: str | None, ranks: Iterable[int] = ()) -> KernelEvidence:
    """Return a line of a kernel's log as evidence; `kernel`: what to call it."""
    times = f", {event.count} times" if event.count > 1 else ""
    text = f"{kernel} reports {event_in_words(event)}{times}"
    return KernelEvidence(ranks=fold(ranks), text=text, host=host, line=event.text, at=event.at, count=event.count)


def _gpu_evidence(gpu: Gpu, facts: NodeFacts, ranks: tuple[int, ...]) -> GpuEvidence:
    text = f"GPU {gpu.index} of {facts.host}: {gpu_trouble(gpu)}"
    return GpuEvidence(ranks=fold(ranks), text=text, host=facts.host, index=gpu.index, device=gpu.device)


def _in_words(facts: NodeFacts) -> str:
    told = [event_in_words(event) for event in facts.events]
    told += [f"GPU {gpu.index}: {gpu_trouble(gpu)}" for gpu in facts.gpus]
    return ", ".join(dict.fromkeys(told[:3])) + (" and more" if len(told) > 3 else "")


def event_in_words(event: KernelEvent) -> str:
    """Name what a line tells, and of what."""
    if event.kind is KernelEventKind.XID:
        told = xid_in_words(event.code)
    elif event.kind is KernelEventKind.SXID:
        told = f"a fatal NVSwitch error (SXid {event.code})"
    else:
        told = KERNEL_WORDS[event.kind]
    where = event.interface or (f"device {event.device}" if event.device else "")
    known = f"pid {event.pid}" if event.pid is not None else f"process {event.host_pid} of the host"
    named = event.pid is not None or event.host_pid is not None
    who = f", {known}{f' ({event.name})' if event.name else ''}" if named else ""
    return f"{told}{' on ' if where else ''}{where}{who}"
