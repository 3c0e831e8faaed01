"""One node's ranks of one job, as briefly as shows where each of them is: the first look at a large job.

Eight ranks of one node run one program: their stacks, setups and records are equal except for times. A survey holds
what they share once, in tables, and what differs in columns. It leaves out what is requested later for the few ranks
that the verdict is about: file descriptors, child processes, log tails, command lines, all but the last records of each
group. Table rows are JSON texts: one that a thousand nodes send is parsed once.

`survey_of` makes one of a snapshot that was taken for it; a `SurveyReader` gives that snapshot back.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, TypeVar

from shared.missing import Missing
from shared.rank_sets import fold_in_steps, unfold
from shared.value import Value, packed
from shared.wire.columns import Columns, blank, columns_of
from shared.wire.devices import Gpus
from shared.wire.kernel_events import KernelEvents
from shared.wire.log_events import EventKind, Logs, is_last_word
from shared.wire.setup import OWN_VARIABLES, Setup
from shared.wire.snapshot import Identity, NodeSnapshot, Process, RankSnapshot
from shared.wire.stacks import Stacks, Thread
from shared.wire.survey_form import (
    TIMES,
    BeatColumns,
    EventColumns,
    FileColumns,
    GpuColumns,
    GpuProcessColumns,
    IdentityColumns,
    KernelEventColumns,
    ProcessColumns,
    RankColumns,
    RecorderColumns,
    SetupColumns,
    Survey,
    SurveyedGroup,
    Tables,
    exchange_quotes,
)
from shared.wire.trace import Group, Trace

WINDOW = 16
"""Finished records of each group and lane that a survey holds."""

MOST_EVENTS = 8
"""Of the log events of one rank: the last ones."""

MOST_OF_A_CALL_SITE = 8
"""Frames, the innermost ones. Suspects send all of them."""


_C = TypeVar("_C", bound=Columns)
_NEVER_OLD = frozenset({EventKind.INTERFACE, EventKind.VERSION})
"""What a job says once, at its start."""


def survey_of(snapshot: NodeSnapshot, others: Sequence[Identity] = ()) -> Survey:
    """Return what a survey says of a snapshot. `others`: ranks on the node that it leaves out."""
    return _Writing().survey(snapshot, others)


class _Table:
    """Keeps equal values once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, value: Value) -> int:
        """Return the index of `value`, adding it when new."""
        return self._places.setdefault(value.model_dump_json(), len(self._places))

    @property
    def rows(self) -> tuple[str, ...]:
        """All that were added, as JSON with quotes exchanged."""
        return tuple(map(exchange_quotes, self._places))


class _Writing:
    """One survey, while it is written."""

    def __init__(self) -> None:
        self._tables = {name: _Table() for name in Tables.model_fields}
        self._setups: dict[str, tuple[int, Setup | Missing]] = {}

    def survey(self, node: NodeSnapshot, others: Sequence[Identity]) -> Survey:
        ranks = self._ranks(node.ranks)
        gpus = node.gpus.gpus if isinstance(node.gpus, Gpus) else ()
        users = [(at, process) for at, gpu in enumerate(gpus) for process in gpu.processes]
        kernel_events = node.kernel_events.events if isinstance(node.kernel_events, KernelEvents) else ()
        return Survey(
            node=_without_many(node),
            others=tuple(others),
            setups=self._columns(SetupColumns, "setups", [setup for _, setup in self._setups.values()]),
            gpus=self._columns(GpuColumns, "gpus", [gpu.model_copy(update={"processes": ()}) for gpu in gpus]),
            gpu_processes=columns_of(GpuProcessColumns, [user for _, user in users], owner=_owners(users)),
            kernel_events=self._columns(KernelEventColumns, "kernel_events", kernel_events),
            ranks=ranks,
            tables=Tables(**{name: table.rows for name, table in self._tables.items()}),
        )

    def _ranks(self, ranks: Sequence[RankSnapshot]) -> RankColumns:
        processes = [rank.process if isinstance(rank.process, Process) else None for rank in ranks]
        before, after = ([process and getattr(process, when) for process in processes] for when in ("before", "after"))
        logs = [_last_events(rank.logs) for rank in ranks]
        files = [(at, file) for at, some in enumerate(logs) if isinstance(some, Logs) for file in some.files]
        events = [(at, event) for at, some in enumerate(logs) if isinstance(some, Logs) for event in some.events]
        return RankColumns(
            identity=self._columns(IdentityColumns, "identities", [rank.identity for rank in ranks]),
            looked_at_ns=tuple(rank.looked_at_ns for rank in ranks),
            idle_for_seconds=tuple(rank.idle_for_seconds for rank in ranks),
            watched_for_seconds=tuple(rank.watched_for_seconds for rank in ranks),
            process=self._columns(ProcessColumns, "processes", [_shared_process(rank.process) for rank in ranks]),
            before=columns_of(BeatColumns, before),
            after=columns_of(BeatColumns, after, before),
            logs=self._place("logs", map(_shared_logs, logs)),
            files=columns_of(FileColumns, [file for _, file in files], owner=_owners(files)),
            events=self._columns(EventColumns, "events", [event for _, event in events], owner=_owners(events)),
            recorder=self._recorders([rank.recorder for rank in ranks]),
            stacks=self._place("stacks", (_shared_stacks(rank.stacks) for rank in ranks)),
            setup=tuple(self._setup(_shared_setup(rank.setup)) for rank in ranks),
        )

    def _columns(self, kind: type[_C], table: str, values: Sequence[Value], **more: Any) -> _C:
        """Return the columns of `values`, with the rows for what they share."""
        nothing = blank(kind)
        shared = (value.model_copy(update=nothing) if isinstance(value, kind.of) else value for value in values)
        return columns_of(kind, values, row=self._place(table, shared), **more)

    def _place(self, table: str, values: Iterable[Value]) -> tuple[int, ...]:
        return tuple(map(self._tables[table].place, values))

    def _setup(self, setup: Setup | Missing) -> int:
        return self._setups.setdefault(setup.model_dump_json(), (len(self._setups), setup))[0]

    def _recorders(self, recorders: Sequence[Trace | Missing]) -> RecorderColumns:
        cut = [recorder.windowed(WINDOW) if isinstance(recorder, Trace) else recorder for recorder in recorders]
        traces = [trace for trace in cut if isinstance(trace, Trace)]
        times = {name: packed(chain.from_iterable(getattr(trace, name) for trace in traces)) for name in TIMES}
        return RecorderColumns(
            program=self._place("programs", map(_program, cut)),
            groups=tuple(self._groups(trace.groups if isinstance(trace, Trace) else ()) for trace in cut),
            **{name: column for name, column in times.items() if any(column)},
        )

    def _groups(self, groups: Sequence[Group]) -> tuple[int, ...]:
        return self._place("groups", map(_surveyed_group, groups))


def _without_many(node: NodeSnapshot) -> NodeSnapshot:
    """Leave out what is in columns."""
    bare: dict[str, Any] = {"ranks": ()}
    if isinstance(node.gpus, Gpus):
        bare["gpus"] = node.gpus.model_copy(update={"gpus": ()})
    if isinstance(node.kernel_events, KernelEvents):
        bare["kernel_events"] = node.kernel_events.model_copy(update={"events": ()})
    return node.model_copy(update=bare)


def _owners(owned: Iterable[tuple[int, Value]]) -> tuple[int, ...]:
    return tuple(owner for owner, _ in owned)


def _program(trace: Trace | Missing) -> Trace | Missing:
    if isinstance(trace, Missing):
        return trace
    zeros = dict.fromkeys(TIMES, array("B", bytes(len(trace))))
    sites = tuple(site[-MOST_OF_A_CALL_SITE:] for site in trace.call_sites)
    unnamed = (Group(name=""),) * len(trace.groups)
    return trace.model_copy(update={"groups": unnamed, "call_sites": sites, **zeros})


def _surveyed_group(group: Group) -> SurveyedGroup:
    members = None if group.members is None else fold_in_steps(unfold(group.members))
    return SurveyedGroup(**{**dict(group), "members": members})


def _shared_process(process: Process | Missing) -> Process | Missing:
    if isinstance(process, Missing):
        return process
    return process.model_copy(update={"command": "", "awaits": (), "before": None, "after": None})


def _shared_logs(logs: Logs | Missing) -> Logs | Missing:
    return logs if isinstance(logs, Missing) else logs.model_copy(update={"files": (), "events": ()})


def _shared_stacks(stacks: Stacks | Missing) -> Stacks | Missing:
    """Leave out what differs between the threads of two ranks that are at the same place."""
    if isinstance(stacks, Missing):
        return stacks
    threads = tuple(_shared_thread(thread, main=thread is stacks.main) for thread in stacks.threads)
    return stacks.model_copy(update={"pid": None, "threads": threads})


def _shared_setup(setup: Setup | Missing) -> Setup | Missing:
    if isinstance(setup, Missing):
        return setup
    shared = {name: value for name, value in setup.variables.items() if name not in OWN_VARIABLES}
    return setup.model_copy(update={"variables": shared})


def _shared_thread(thread: Thread, *, main: bool) -> Thread:
    active = thread.active if thread.holds_gil else None
    name = "MainThread" if main else thread.name
    return thread.model_copy(update={"tid": None, "name": name, "active": active, "switches": None})


def _last_events(logs: Logs | Missing) -> Logs | Missing:
    """Leave out the lines, and the events after which the process went on."""
    if isinstance(logs, Missing):
        return logs
    events = [e for e in logs.events if e.kind in _NEVER_OLD or is_last_word(e, logs.files)]
    files = tuple(file.model_copy(update={"lines": ()}) for file in logs.files)
    return logs.model_copy(update={"files": files, "events": tuple(events[-MOST_EVENTS:])})
