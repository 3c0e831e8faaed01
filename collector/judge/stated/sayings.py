"""What each source says of whom: log lines, flight records, stacks of ranks and of strays, kernel logs, and endings."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from collector.align.logs.group_members import key_of
from collector.align.marks.reports import numbers_in
from collector.align.marks.watchdog_lines import timeout_of
from collector.align.observations import Observations
from collector.align.stacks.activity import Activity
from collector.align.stacks.tables.row_types import Doing
from collector.align.strays import find_strays
from collector.align.wait_states import MAY_WAIT, shown_state
from collector.judge.ended_first import how_they_ended
from collector.judge.report.sentences import say
from shared.answer.statements import Stated
from shared.wire.kernel_events import KernelEvent, KernelEventKind
from shared.wire.log_events import EventKind, LogEvent
from shared.wire.snapshot import NodeSnapshot

LOGS, RECORDS, STACKS, ENDINGS = "log", "flight records", "stacks", "how processes ended"
LOG_ENDS, KERNEL, COUNTERS = "where a log ends", "kernel log", "counters of process groups"
_STATES = {
    EventKind.WATCHDOG_TIMEOUT: Stated.WAITS,
    EventKind.BARRIER_FAILED: Stated.WAITS,
    EventKind.RENDEZVOUS: Stated.WAITS,
    EventKind.SAYS_WAIT: Stated.WAITS,
    EventKind.COLLECTIVE_MISMATCH: Stated.AT,
    EventKind.TRANSPORT_ERROR: Stated.FAILED,
    EventKind.EXCEPTION: Stated.FAILED,
    EventKind.SAYS_ERROR: Stated.FAILED,
    EventKind.OUT_OF_MEMORY: Stated.FAILED,
    EventKind.DEVICE_ERROR: Stated.FAILED,
    EventKind.SIGNAL: Stated.ENDED,
    EventKind.LAST_LINE: Stated.AT,
}
"""Lines of other kinds say nothing of a wait."""
_KERNEL_STATES = {
    KernelEventKind.HUNG_TASK: Stated.WAITS,
    KernelEventKind.LOCKUP: Stated.AT,
    KernelEventKind.LINK_UP: Stated.AT,
    KernelEventKind.OOM_KILL: Stated.ENDED,
    KernelEventKind.CRASH: Stated.ENDED,
}
"""Whatever else the kernel reports has failed."""
_OF_OTHERS = {"never_joined": Stated.BEHIND, "ready": Stated.WAITS, "apart": Stated.WAITS, "ranks": Stated.BEHIND}
"""By the field of a line that names others, what it says of them."""
_SECONDS = {"elapsed_ms": 1e-3, "waited_ms": 1e-3, "timeout_ms": 1e-3, "stuck_seconds": 1.0, "xla_seconds": 1.0}
_SECONDS |= {"waited_seconds": 1.0}


_PLACES = ("group_rank", "waiter")
"""Fields that tell whose line it is by a place in its group."""
_LONGEST = 500
_CHANGES = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?")
# step 119 | loss 2.3        {'loss': 1.2, 'epoch': 3}        Epoch: [0] [ 260/9143]
_STEP = re.compile(r"\b(?:step|iter(?:ation)?|epoch|batch)\W{1,4}\d+(?:\.\d+)?|\b\d+/\d+\b", re.IGNORECASE)
_MARKS = re.compile(
    r"\[(?:rank ?[:=]? ?)?N(?:,N)?\](?:<\w+>)?:?|\([\w.:]* ?pid=N[^)]*\)|(?:DP|TP|PP|EP)N", re.IGNORECASE
)
"""In a line without its numbers, who wrote it."""


@dataclass(frozen=True)
class Saying:
    """One thing said of one process."""

    who: int | str
    """Its rank; else what it calls itself, or is called by what shows it."""
    state: Stated
    source: str
    op: str | None = None
    group: str | None = None
    sequence: int | None = None
    seconds: float | None = None
    place: str = ""
    """Where it stands, in words."""
    line: str = ""
    path: str = ""

    @property
    def operation(self) -> tuple[str | None, str | None, int | None]:
        """What it waits in: of two sayings, what one lacks agrees with what the other says."""
        return self.op, self.group, self.sequence

    @cached_property
    def form(self) -> str:
        """Of what names no operation, its line without numbers and without who wrote it."""
        untold = self.op is None and self.sequence is None
        return _MARKS.sub("", _CHANGES.sub("N", self.line[:_LONGEST])) if untold else ""

    @cached_property
    def key(self) -> "Key":
        return self.state, *self.operation, self.place, self.form


Key = tuple[Stated, str | None, str | None, int | None, str, str]
"""Equal for those who say the same."""


def sayings(observations: Observations, snapshots: Sequence[NodeSnapshot]) -> Iterator[Saying]:
    """Yield all that is said, in the order of sources, ranks and lines."""
    spoken = observations.statements
    for rank, event in _of_tables((*spoken.all(), *spoken.voices)):
        yield from _of_line(_in_world(event, observations.roster.world_size) if rank is None else rank, event)
    for edge in observations.edges:
        source = RECORDS if edge.waiter in observations.recorded else COUNTERS
        yield Saying(edge.waiter, Stated.WAITS, source, edge.signature.op, edge.group.label, edge.sequence)
    for rank, seen in observations.activities.items():
        yield from _of_stack(rank, seen)
    strays = find_strays(snapshots, observations.roster)
    for stray in strays.processes:
        yield from _of_stack(stray.name, stray.activity)
    for host, told in strays.kernel:
        state = _KERNEL_STATES.get(told.kind, Stated.FAILED)
        yield Saying(_of_kernel(host, told), state, KERNEL, line=told.text)
    for view in observations.roster.gone():
        if view.exited is not None:
            yield Saying(view.rank, Stated.ENDED, ENDINGS, place=how_they_ended({view.rank: view.exited}))


def _in_world(event: LogEvent, world_size: int | None) -> int | None:
    """The rank that a place is in the group of all ranks: the default one, or one that is as large as the job."""
    fields, key = event.fields, key_of(event)
    if (key is not None and key.is_default) or (world_size is not None and fields.get("expected") == str(world_size)):
        return next((int(fields[name]) for name in _PLACES if name in fields), None)
    return None


def _of_tables(heard: Sequence[tuple[int | None, LogEvent]]) -> Iterator[tuple[int | None, LogEvent]]:
    """Make one line of each entry of torchelastic's table: when, which rank, and below them how it ended."""
    ranks = {(e.path, e.number + 1): int(e.fields["failed_rank"]) for _, e in heard if "failed_rank" in e.fields}
    told = {(event.path, event.number) for _, event in heard if "exit_code" in event.fields}
    for rank, event in heard:
        entry = (
            (event.path, event.number + 1) in told if "failed_rank" in event.fields else "seen_ended" in event.fields
        )
        if not entry:
            yield ranks.get((event.path, event.number), rank), event


# PMPI_Allreduce        ompi_coll_base_allreduce_intra_recursivedoubling        ccl_allgather_impl        ncclAllReduce
_OF_LIBRARIES = re.compile(
    r"(?:^P?MPI_I?|MPIR_|coll_[a-z]{1,20}_|ccl_?)(?P<op>all_?reduce|all_?gatherv?|all_?to_?all[vw]?|reduce_?scatter"
    r"|reduce|gatherv?|scatterv?|b(?:road)?cast|barrier|finalize|sendrecv|send|recv)",
    re.IGNORECASE,
)


def _of_line(rank: int | None, event: LogEvent) -> Iterator[Saying]:
    state, fields = _STATES.get(event.kind), event.fields
    if state is None:
        return
    who = rank if rank is not None else _name(event)
    told_of = {name: numbers_in(fields[name]) for name in _OF_OTHERS if name in fields}
    for name, ranks in told_of.items():
        joined = Stated.WAITS if "unfinished" in fields else _OF_OTHERS[name]
        yield from (Saying(each, joined, LOGS, line=event.text, path=event.path) for each in ranks)
    if told_of:
        return
    if event.kind is EventKind.COLLECTIVE_MISMATCH and "rank" in fields and rank is None:
        who = f"group rank {fields['rank']}"
    if event.kind is EventKind.LAST_LINE and "sequence" not in fields:
        steps = ", ".join(_STEP.findall(event.text))
        yield Saying(who, state, LOG_ENDS, place=steps, line=event.text, path=event.path)
        return
    timeout = timeout_of(event) if event.kind is EventKind.WATCHDOG_TIMEOUT else None
    key = key_of(event)
    told = next((float(fields[name]) * unit for name, unit in _SECONDS.items() if _is_number(fields.get(name))), None)
    sequence = timeout.sequence if timeout is not None else _number(fields.get("sequence"))
    group = None if key is None else key.description or key.name
    yield Saying(who, state, LOGS, fields.get("op"), group, sequence, told, line=event.text, path=event.path)
    if event.kind is EventKind.COLLECTIVE_MISMATCH and "other_rank" in fields:
        other = f"group rank {fields['other_rank']}"
        number = _number(fields.get("other_sequence"))
        yield Saying(other, state, LOGS, fields.get("other_op"), group, number, line=event.text, path=event.path)


def _name(event: LogEvent) -> str:
    """What a process of unknown rank calls itself."""
    number = next((event.fields[name] for name in _PLACES if name in event.fields), None)
    known = event.fields | {"path": event.path} | ({} if number is None else {"number": number})
    known |= {"by": f", by {known['tool']}" if known["part"] else known["tool"]} if "tool" in known else {}
    return say("caller", known)


def _of_kernel(host: str | None, event: KernelEvent) -> str:
    """The process that the kernel reports on, else the machine whose kernel it is."""
    if event.pid is None:
        return "the kernel" if host is None else f"the kernel of {host}"
    named = "" if event.name is None else f" ({event.name})"
    return f"process {event.pid}{named}{'' if host is None else f' on {host}'}"


def _of_stack(who: int | str, seen: Activity) -> Iterator[Saying]:
    if not seen.frames or (seen.doing is Doing.UNKNOWN and isinstance(who, int)):
        return
    inside = seen.doing is Doing.WORK and seen.op is None
    named = (_OF_LIBRARIES.search(frame.function) for frame in seen.frames) if inside else ()
    op = next((match["op"].lower() for match in named if match is not None), seen.op)
    waits = seen.waits_for_ranks or shown_state(seen) in MAY_WAIT
    told = [frame for frame in reversed(seen.frames) if frame.function[:2] not in ("??", "0x")]
    inner = seen.user or next(iter(told), None)
    at = f"{seen.label} at {inner}" if inner else seen.label
    if seen.doing is Doing.UNKNOWN:  # no row knows its stack
        at += "".join(f", called by {frame.function}" for frame in told[1:3])
    yield Saying(who, Stated.WAITS if waits else Stated.AT, STACKS, op, place=at)


def _is_number(text: str | None) -> bool:
    return text is not None and text.replace(".", "", 1).isdecimal()


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
