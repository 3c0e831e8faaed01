"""Step 9, last, where no rank can be told anything of: processes whose rank nothing tells, and a kernel log by itself.

People keep stacks without a word of whose they are. A rank cannot be named by them, but a process can.

1. One process of a program stands outside communication where more of them wait: it is the one to look at. It must run
   what they run, by the outermost frame: launchers and loaders are at home elsewhere.
2. Processes wait, or lines say that ranks waited, and the kernel reports a broken GPU or network adapter; or it reports
   a GPU that broke under such a process. That is told as what to look at first. It does not prove anything.
3. The kernel itself says that a Python process has not left it for minutes, and in which driver: that one hangs.

4. All that are seen wait, but in several collectives that take every member of a group: they have parted somewhere.

Else nothing is found, and where the processes stand is said.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from collector.align.logs.attributed_lines import Statements
from collector.align.node_facts import breaks_device, breaks_network
from collector.align.observations import Observations
from collector.align.stacks.activity import Activity, place
from collector.align.stacks.tables.kernel_facts import StackRow, stack_row
from collector.align.stacks.tables.row_types import Doing
from collector.align.strays import StrayProcess, find_strays
from collector.align.wait_states import MAY_WAIT, shown_state
from collector.judge.by_stacks import takes_all
from collector.judge.fault import TELLING, Fault
from collector.judge.fault_rows import fault_by
from collector.judge.hardware.refine_faults import PROVES_NOTHING, event_in_words, kernel_evidence
from collector.judge.report.findings import finding_of
from collector.judge.report.headline import Interpretation
from shared.answer.diagnosis import KernelEvidence, StackEvidence
from shared.answer.words import Cause, Verdict
from shared.isolation import costs_itself
from shared.plural import counted, either
from shared.rank_sets import ranks_in_words
from shared.wire.kernel_events import KernelEvent, KernelEventKind
from shared.wire.snapshot import NodeSnapshot

_MOST_TOLD = 4
# python3        pt_main_thread        ray::PolicyWork
_OF_A_JOB = re.compile(r"python|pt_|ray::|torchrun|VLLM|sglang")
_LOADS = "_worker_loop"

_Line = tuple[str | None, KernelEvent]


@costs_itself(lambda reading, observations, snapshots: reading)
def with_strays(
    reading: Interpretation, observations: Observations, snapshots: Sequence[NodeSnapshot]
) -> Interpretation:
    """Return what strays tell where no rank is seen in stacks or records, and nothing else is found."""
    told = observations.traces or any(activity.frames for activity in observations.activities.values())
    if reading.verdict is not Verdict.CANNOT_TELL or reading.state is not None or told:
        return reading
    strays = find_strays(snapshots, observations.roster)
    waiting = [each for each in strays.processes if shown_state(each.activity) in MAY_WAIT]
    kernel = _of_this_job(strays.kernel, observations, snapshots)
    fault = (
        _apart(waiting, strays.processes)
        or _broken(waiting, kernel, observations.statements)
        or _held_in_kernel(kernel)
        or _in_several(waiting)
    )
    if fault is not None:
        return Interpretation(Verdict.HUNG, "", findings=(finding_of(fault, observations),))
    return replace(reading, reason=_where_all_wait(waiting)) if waiting else reading


def _of_this_job(
    lines: tuple[_Line, ...], observations: Observations, snapshots: Sequence[NodeSnapshot]
) -> tuple[_Line, ...]:
    """Whoever keeps files keeps those of one job; a running node's kernel tells of others' processes, too."""
    running = {snapshot.host for snapshot in snapshots if snapshot.live}
    own = [event for rank in observations.roster.ranks for event in observations.kernel_on(rank)]
    return tuple((host, event) for host, event in lines if host not in running or event in own)


def _apart(waiting: list[StrayProcess], processes: tuple[StrayProcess, ...]) -> Fault | None:
    """1."""
    programs = {_program(each.activity) for each in waiting}
    outside = [
        each
        for each in processes
        if each.activity.doing is Doing.OUTSIDE and _program(each.activity) in programs and not _loads(each.activity)
    ]
    held = all(each.activity.cause in TELLING for each in outside)
    if not outside or len(outside) >= len(waiting) or (len(outside) > 1 and not held):
        return None
    causes = {each.activity.cause for each in outside}
    names = ", ".join(each.name for each in outside[:_MOST_TOLD])
    seen = outside[0].activity
    at = f" at {seen.user}" if seen.user is not None else ""
    cause = causes.pop() if len(causes) == 1 else Cause.UNKNOWN
    others = f"{counted(len(waiting), 'other process')} {either(waiting, 'waits', 'wait')} in communication"
    shown = (*map(_stack, outside[:_MOST_TOLD]), *map(_stack, waiting[:_MOST_TOLD]))
    words = {"outside": names, "waiting": others, "label": f"{either(outside, 'is', 'are')} {seen.label}{at}"}
    return fault_by("stray_apart", (), (), words, cause=cause, evidence=shown)


def _program(seen: Activity) -> tuple[str, str] | None:
    """What a process runs: its outermost frame, without the line."""
    return (seen.frames[0].function, seen.frames[0].file) if seen.frames else None


def _loads(seen: Activity) -> bool:
    """Is it a child that loads batches? A fork has its parent's outermost frame."""
    return any(frame.function.rpartition(".")[2] == _LOADS for frame in seen.frames)


def _broken(waiting: list[StrayProcess], kernel: tuple[_Line, ...], statements: Statements) -> Fault | None:
    """2."""
    events = [event for _, event in kernel]
    broken = [line for line in kernel if breaks_device(line[1]) or breaks_network(line[1], events)]
    victims = tuple(sorted(statements.waited))
    under = [event for _, event in broken if event.pid is not None and _OF_A_JOB.match(event.name or "")]
    if not broken or not (waiting or victims or under):
        return None
    devices = any(breaks_device(event) for _, event in broken)
    told = "; ".join(dict.fromkeys(f"{_kernel_of(host)} reports {event_in_words(event)}" for host, event in broken[:3]))
    who = counted(len(waiting), "process") if waiting else ranks_in_words(victims)
    does = f"{who} {either(waiting or victims, 'waits', 'wait')} in communication"
    if not (waiting or victims):
        does = f"process {under[0].pid} ({under[0].name}) ran on a GPU that failed"
    shown = (*map(_stack, waiting[:_MOST_TOLD]), *map(_line, broken[:_MOST_TOLD]))
    cause = Cause.GPU_FAULT if devices else Cause.NETWORK
    return fault_by(
        "broken_part", (), victims, {"does": does, "told": told, "proves": PROVES_NOTHING}, cause=cause, evidence=shown
    )


def _held_in_kernel(lines: Iterable[_Line]) -> Fault | None:
    """3."""
    held = [(line, row) for line in lines if (row := _row(line[1])) is not None]
    if not held:
        return None
    (host, event), row = held[0]
    words = {"pid": event.pid, "name": event.name, "label": row.label, "kernel": _kernel_of(host)}
    shown = tuple(_line(line) for line, _ in held[:_MOST_TOLD])
    return fault_by("held_in_kernel", (), (), words, cause=row.cause, evidence=shown)


def _in_several(waiting: list[StrayProcess]) -> Fault | None:
    """4."""
    places: dict[str, list[StrayProcess]] = defaultdict(list)
    for each in waiting:
        if not takes_all(each.activity):
            return None
        places[each.activity.op or each.activity.label].append(each)
    if len(places) < 2:
        return None
    told = ", ".join(
        f"{counted(len(who), 'process')} in {op} (such as {who[0].name})"
        for op, who in list(places.items())[:_MOST_TOLD]
    )
    shown = tuple(_stack(who[0]) for who in list(places.values())[:_MOST_TOLD])
    words = {"count": counted(len(waiting), "process"), "places": told}
    return fault_by("strays_in_several", (), (), words, evidence=shown)


def _row(event: KernelEvent) -> StackRow | None:
    if event.kind is not KernelEventKind.HUNG_TASK or not _OF_A_JOB.match(event.name or ""):
        return None
    return stack_row(event.stack)


def _kernel_of(host: str | None) -> str:
    return "the kernel log" if host is None else f"the kernel of {host}"


def _where_all_wait(waiting: list[StrayProcess]) -> str:
    ops = sorted({each.activity.op or each.activity.label for each in waiting})
    what = ", ".join(ops[:_MOST_TOLD])
    return (
        f"{counted(len(waiting), 'process')} of unknown rank {either(waiting, 'waits', 'wait')} ({what}), "
        "and none like them is seen elsewhere"
    )


def _stack(each: StrayProcess) -> StackEvidence:
    frames = tuple(place(frame) for frame in each.activity.frames)
    return StackEvidence(
        ranks="", text=f"{each.name} is {each.activity.label}", thread=each.activity.thread, frames=frames
    )


def _line(line: _Line) -> KernelEvidence:
    return kernel_evidence(line[1], _kernel_of(line[0]), line[0])
