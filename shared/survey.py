"""One node's ranks of one job as briefly as tells where each of them is: the first look at a large job.

Eight ranks of one node run one program: they have the same stacks, setups and records but for the times. A survey says
what they share once, in tables, and leaves out what is asked later of the few ranks that the verdict is about: file
descriptors, child processes, log tails, command lines, all but the last records of each group. The rows of the tables
are JSON in themselves: what a thousand nodes say in the same words is read once.

`survey_of` makes one of a snapshot that was taken for it; a `SurveyReader` gives that snapshot back.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import Generic, Literal, Self, TypeVar

from pydantic import Field, TypeAdapter, model_validator

from shared.log_events import EventKind, Logs, is_last_word
from shared.missing import Missing, Reason
from shared.ranks import fold_in_steps, out_of_steps, unfold
from shared.setup import OWN_VARIABLES, Setup
from shared.snapshot import Identity, NodeSnapshot, Process, RankSnapshot
from shared.stacks import Stacks, Thread
from shared.trace import Group, Trace
from shared.value import PackedColumn, Value, is_within

WINDOW = 16
"""Finished records of each group and lane that a survey holds."""

MOST_EVENTS = 8
"""Of the log events of one rank: the last ones."""

MOST_OF_A_CALL_SITE = 8
"""Frames, the innermost ones. Suspects are asked for all of them."""

MOST_MEMBERS = 131_072
"""Of one group in steps, which takes few characters to claim many members."""

_LEFT_OUT = Missing(
    source="fds", reason=Reason.NOT_ENABLED, detail="left out of the survey of a large job; suspects were asked"
)

_T = TypeVar("_T")
_STACKS: TypeAdapter[Stacks | Missing] = TypeAdapter(Stacks | Missing)
_SETUP: TypeAdapter[Setup | Missing] = TypeAdapter(Setup | Missing)


class SurveyedGroup(Value):
    """A process group, its members in as few characters as they may be."""

    name: str
    description: str = ""
    members: str | None = Field(default=None, description="Folded, or one span with a step: `0-8184/8`.")
    order: tuple[int, ...] | None = None
    timeout_ms: int | None = None


class SurveyedTrace(Value):
    """One rank's flight record: the times, and where the rest stands."""

    program: int = Field(description="Index into the survey's programs: all columns but the times.")
    groups: tuple[int, ...] = Field(description="Its group table, as indices into that of the survey.")
    created_ns: PackedColumn
    started_ns: PackedColumn
    completed_ns: PackedColumn


class SurveyedRank(Value):
    """One rank: what it has to itself, and where in the survey's tables the rest stands."""

    identity: Identity
    looked_at_ns: int | None = None
    idle_for_seconds: float | None = None
    process: Process | Missing
    logs: Logs | Missing
    recorder: SurveyedTrace | Missing
    stacks: int
    setup: int


class Survey(Value):
    """A brief look at one node."""

    kind: Literal["survey"] = "survey"
    node: NodeSnapshot = Field(description="What the node tells, without its ranks.")
    others: tuple[Identity, ...] = Field(default=(), description="Ranks on the node that are not of the job.")
    stacks: tuple[str, ...] = Field(default=(), description="Stacks, or why there are none; JSON. Without thread ids.")
    setups: tuple[str, ...] = Field(
        default=(), description="Setups, or why there are none; JSON. Without own variables."
    )
    groups: tuple[str, ...] = Field(default=(), description="Process groups; JSON.")
    programs: tuple[str, ...] = Field(default=(), description="Flight records without times and groups; JSON.")
    ranks: tuple[SurveyedRank, ...] = ()

    @property
    def schema_version(self) -> int:
        """Return the version of what the node tells."""
        return self.node.schema_version

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse what points beside the tables: whoever sends it may be hostile."""
        traces = [rank.recorder for rank in self.ranks if isinstance(rank.recorder, SurveyedTrace)]
        pointed_at = (
            ([rank.stacks for rank in self.ranks], self.stacks),
            ([rank.setup for rank in self.ranks], self.setups),
            ([trace.program for trace in traces], self.programs),
            ([index for trace in traces for index in trace.groups], self.groups),
        )
        if not all(is_within(indices, len(table)) for indices, table in pointed_at):
            raise ValueError("a rank points beside the tables")
        return self


class _Table:
    """Keeps equal values once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, value: Value) -> int:
        """Return the index of `value`, adding it when new."""
        return self._places.setdefault(value.model_dump_json(), len(self._places))

    @property
    def rows(self) -> tuple[str, ...]:
        """All that were added, as JSON."""
        return tuple(self._places)


class _Tables:
    def __init__(self) -> None:
        self.stacks, self.setups, self.groups, self.programs = _Table(), _Table(), _Table(), _Table()

    def line(self, rank: RankSnapshot) -> SurveyedRank:
        process, recorder = rank.process, rank.recorder
        return SurveyedRank(
            identity=rank.identity,
            looked_at_ns=rank.looked_at_ns,
            idle_for_seconds=rank.idle_for_seconds,
            process=process.model_copy(update={"command": ""}) if isinstance(process, Process) else process,
            logs=_last_events(rank.logs),
            recorder=self._trace(recorder) if isinstance(recorder, Trace) else recorder,
            stacks=self.stacks.place(_shared_stacks(rank.stacks)),
            setup=self.setups.place(_shared_setup(rank.setup)),
        )

    def _trace(self, whole: Trace) -> SurveyedTrace:
        trace = whole.windowed(WINDOW)
        left_out = dict.fromkeys(("created_ns", "started_ns", "completed_ns"), array("B", bytes(len(trace))))
        sites = tuple(site[-MOST_OF_A_CALL_SITE:] for site in trace.call_sites)
        unnamed = (Group(name=""),) * len(trace.groups)
        return SurveyedTrace(
            program=self.programs.place(trace.model_copy(update={"groups": unnamed, "call_sites": sites, **left_out})),
            groups=tuple(self._group(group) for group in trace.groups),
            created_ns=trace.created_ns,
            started_ns=trace.started_ns,
            completed_ns=trace.completed_ns,
        )

    def _group(self, group: Group) -> int:
        members = None if group.members is None else fold_in_steps(unfold(group.members))
        return self.groups.place(SurveyedGroup(**{**dict(group), "members": members}))


def survey_of(snapshot: NodeSnapshot, others: Sequence[Identity] = ()) -> Survey:
    """Return what a survey says of a snapshot. `others`: ranks on the node that it leaves out."""
    tables = _Tables()
    ranks = tuple(tables.line(rank) for rank in snapshot.ranks)
    return Survey(
        node=snapshot.model_copy(update={"ranks": ()}),
        others=tuple(others),
        stacks=tables.stacks.rows,
        setups=tables.setups.rows,
        groups=tables.groups.rows,
        programs=tables.programs.rows,
        ranks=ranks,
    )


class SurveyReader:
    """Makes snapshots of the surveys of one sweep. What many nodes tell alike is read, and kept in memory, once."""

    def __init__(self) -> None:
        self._stacks: _Reading[Stacks | Missing] = _Reading(_STACKS.validate_json)
        self._setups: _Reading[Setup | Missing] = _Reading(_SETUP.validate_json)
        self._groups: _Reading[Group] = _Reading(_read_group)
        self._programs: _Reading[Trace] = _Reading(Trace.model_validate_json)

    def snapshot_of(self, survey: Survey) -> NodeSnapshot:
        """Return the snapshot that a survey was made of, as far as it goes. Raises ValueError, also InvalidRankSet."""
        stacks, setups = self._stacks.rows(survey.stacks), self._setups.rows(survey.setups)
        groups, programs = self._groups.rows(survey.groups), self._programs.rows(survey.programs)
        ranks = tuple(
            RankSnapshot.model_construct(
                identity=line.identity,
                looked_at_ns=line.looked_at_ns,
                process=line.process,
                stacks=stacks[line.stacks],
                children=(),
                fds=_LEFT_OUT,
                logs=line.logs,
                recorder=_trace(line.recorder, programs, groups),
                setup=setups[line.setup],
                idle_for_seconds=line.idle_for_seconds,
            )
            for line in survey.ranks
        )
        return survey.node.model_copy(update={"ranks": ranks})


class _Reading(Generic[_T]):
    """Reads each text once."""

    def __init__(self, read: Callable[[str], _T]) -> None:
        self._read = read
        self._known: dict[str, _T] = {}

    def rows(self, texts: Sequence[str]) -> list[_T]:
        """Return what each text says."""
        for text in texts:
            if text not in self._known:
                self._known[text] = self._read(text)
        return [self._known[text] for text in texts]


def _trace(told: SurveyedTrace | Missing, programs: Sequence[Trace], groups: Sequence[Group]) -> Trace | Missing:
    if isinstance(told, Missing):
        return told
    program = programs[told.program]
    lengths = {len(told.created_ns), len(told.started_ns), len(told.completed_ns)}
    if lengths != {len(program)} or len(told.groups) != len(program.groups):
        raise ValueError("a flight record does not fit its program")
    return program.model_copy(
        update={
            "groups": tuple(groups[index] for index in told.groups),
            "created_ns": told.created_ns,
            "started_ns": told.started_ns,
            "completed_ns": told.completed_ns,
        }
    )


def _read_group(text: str) -> Group:
    told = SurveyedGroup.model_validate_json(text)
    members = None if told.members is None else out_of_steps(told.members, most=MOST_MEMBERS)
    return Group.model_construct(**{**dict(told), "members": members})


def _shared_stacks(stacks: Stacks | Missing) -> Stacks | Missing:
    """Leave out what tells the threads of two ranks apart that are at the same place."""
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
    return thread.model_copy(update={"tid": None, "name": "MainThread" if main else thread.name, "active": active})


def _last_events(logs: Logs | Missing) -> Logs | Missing:
    """Leave out the lines, and with them what they tell of: events after which the process has gone on."""
    if isinstance(logs, Missing):
        return logs
    events = [e for e in logs.events if e.kind is EventKind.INTERFACE or is_last_word(e, logs.files)]
    files = tuple(file.model_copy(update={"lines": ()}) for file in logs.files)
    return logs.model_copy(update={"files": files, "events": tuple(events[-MOST_EVENTS:])})
