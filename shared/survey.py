"""One node's ranks of one job as briefly as tells where each of them is: the first look at a large job.

Eight ranks of one node run one program: they have the same stacks, setups and records but for the times. A survey says
what they share once, in tables, and leaves out what is asked later of the few ranks that the verdict is about: file
descriptors, child processes, log tails, command lines, all but the last records of each group.

`survey_of` makes one of a snapshot that was taken for it; a `SurveyReader` gives that snapshot back.
"""

from array import array
from collections.abc import Sequence
from typing import Generic, Literal, Self, TypeVar

from pydantic import Field, model_validator

from shared.log_events import Logs
from shared.missing import Missing, Reason
from shared.ranks import fold_in_steps, out_of_steps, unfold
from shared.setup import Setup
from shared.snapshot import Identity, NodeSnapshot, Process, RankSnapshot
from shared.stacks import Stacks, Thread
from shared.trace import Group, Trace
from shared.value import PackedColumn, Value, is_within

WINDOW = 16
"""Finished records of each group and lane that a survey holds."""

MOST_EVENTS = 8
"""Of the log events of one rank: the last ones."""

MOST_MEMBERS = 131_072
"""Of one group in steps, which takes few characters to claim many members."""

_LEFT_OUT = Missing(
    source="fds", reason=Reason.NOT_ENABLED, detail="left out of the survey of a large job; suspects were asked"
)

_T = TypeVar("_T")


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
    stacks: tuple[Stacks | Missing, ...] = Field(default=(), description="Without thread ids: several ranks share one.")
    setups: tuple[Setup | Missing, ...] = ()
    groups: tuple[SurveyedGroup, ...] = ()
    programs: tuple[Trace, ...] = Field(default=(), description="Records without times and groups' names.")
    ranks: tuple[SurveyedRank, ...] = ()

    @property
    def schema_version(self) -> int:
        """Return the version of what the node tells."""
        return self.node.schema_version

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse what points beside the tables: whoever sends it may be hostile."""
        if not is_within([rank.stacks for rank in self.ranks], len(self.stacks)):
            raise ValueError("a rank has stacks that are not in the table")
        if not is_within([rank.setup for rank in self.ranks], len(self.setups)):
            raise ValueError("a rank has a setup that is not in the table")
        for trace in (rank.recorder for rank in self.ranks):
            if isinstance(trace, SurveyedTrace):
                self._check_trace(trace)
        return self

    def _check_trace(self, trace: SurveyedTrace) -> None:
        if not is_within([trace.program], len(self.programs)) or not is_within(trace.groups, len(self.groups)):
            raise ValueError("a flight record points beside the tables")
        program = self.programs[trace.program]
        lengths = {len(trace.created_ns), len(trace.started_ns), len(trace.completed_ns)}
        if lengths != {len(program)} or len(trace.groups) != len(program.groups):
            raise ValueError("a flight record does not fit its program")


class _Table(Generic[_T]):
    """Keeps equal values once, by their JSON: values hold lists, which cannot be hashed."""

    def __init__(self) -> None:
        self.rows: list[_T] = []
        self._places: dict[str, int] = {}

    def place(self, value: _T, key: str) -> int:
        """Return the index of `value`, adding it when new."""
        if key not in self._places:
            self._places[key] = len(self.rows)
            self.rows.append(value)
        return self._places[key]


class _Tables:
    def __init__(self) -> None:
        self.stacks: _Table[Stacks | Missing] = _Table()
        self.setups: _Table[Setup | Missing] = _Table()
        self.groups: _Table[SurveyedGroup] = _Table()
        self.programs: _Table[Trace] = _Table()

    def line(self, rank: RankSnapshot) -> SurveyedRank:
        stacks = _shared_stacks(rank.stacks)
        return SurveyedRank(
            identity=rank.identity,
            looked_at_ns=rank.looked_at_ns,
            idle_for_seconds=rank.idle_for_seconds,
            process=rank.process.model_copy(update={"command": ""})
            if isinstance(rank.process, Process)
            else rank.process,
            logs=_last_events(rank.logs),
            recorder=self._trace(rank.recorder) if isinstance(rank.recorder, Trace) else rank.recorder,
            stacks=self.stacks.place(stacks, stacks.model_dump_json()),
            setup=self.setups.place(rank.setup, rank.setup.model_dump_json()),
        )

    def _trace(self, whole: Trace) -> SurveyedTrace:
        trace = whole.windowed(WINDOW)
        zeros = array("B", bytes(len(trace)))
        program = trace.model_copy(
            update={
                "groups": (Group(name=""),) * len(trace.groups),
                **dict.fromkeys(("created_ns", "started_ns", "completed_ns"), zeros),
            }
        )
        return SurveyedTrace(
            program=self.programs.place(program, program.model_dump_json()),
            groups=tuple(self._group(group) for group in trace.groups),
            created_ns=trace.created_ns,
            started_ns=trace.started_ns,
            completed_ns=trace.completed_ns,
        )

    def _group(self, group: Group) -> int:
        members = None if group.members is None else fold_in_steps(unfold(group.members))
        brief = SurveyedGroup(**{**dict(group), "members": members})
        return self.groups.place(brief, brief.model_dump_json())


def survey_of(snapshot: NodeSnapshot, others: Sequence[Identity] = ()) -> Survey:
    """Return what a survey says of a snapshot. `others`: ranks on the node that it leaves out."""
    tables = _Tables()
    ranks = tuple(tables.line(rank) for rank in snapshot.ranks)
    return Survey(
        node=snapshot.model_copy(update={"ranks": ()}),
        others=tuple(others),
        stacks=tuple(tables.stacks.rows),
        setups=tuple(tables.setups.rows),
        groups=tuple(tables.groups.rows),
        programs=tuple(tables.programs.rows),
        ranks=ranks,
    )


class SurveyReader:
    """Makes snapshots of the surveys of one sweep. What many nodes tell alike is kept in memory once."""

    def __init__(self) -> None:
        self._groups: dict[SurveyedGroup, Group] = {}
        self._stacks: dict[Stacks, Stacks] = {}

    def snapshot_of(self, survey: Survey) -> NodeSnapshot:
        """Return the snapshot that a survey was made of, as far as it goes. Raises InvalidRankSet."""
        groups = [self._group(group) for group in survey.groups]
        stacks = [self._shared(stacks) for stacks in survey.stacks]
        ranks = tuple(_rank(line, survey, groups, stacks) for line in survey.ranks)
        return survey.node.model_copy(update={"ranks": ranks})

    def _group(self, told: SurveyedGroup) -> Group:
        group = self._groups.get(told)
        if group is None:
            members = None if told.members is None else out_of_steps(told.members, most=MOST_MEMBERS)
            group = self._groups[told] = Group.model_construct(**{**dict(told), "members": members})
        return group

    def _shared(self, stacks: Stacks | Missing) -> Stacks | Missing:
        return stacks if isinstance(stacks, Missing) else self._stacks.setdefault(stacks, stacks)


def _rank(
    line: SurveyedRank, survey: Survey, groups: Sequence[Group], stacks: Sequence[Stacks | Missing]
) -> RankSnapshot:
    told = line.recorder
    return RankSnapshot.model_construct(
        identity=line.identity,
        looked_at_ns=line.looked_at_ns,
        process=line.process,
        stacks=stacks[line.stacks],
        children=(),
        fds=_LEFT_OUT,
        logs=line.logs,
        recorder=_trace(told, survey.programs[told.program], groups) if isinstance(told, SurveyedTrace) else told,
        setup=survey.setups[line.setup],
        idle_for_seconds=line.idle_for_seconds,
    )


def _trace(told: SurveyedTrace, program: Trace, groups: Sequence[Group]) -> Trace:
    return program.model_copy(
        update={
            "groups": tuple(groups[index] for index in told.groups),
            "created_ns": told.created_ns,
            "started_ns": told.started_ns,
            "completed_ns": told.completed_ns,
        }
    )


def _shared_stacks(stacks: Stacks | Missing) -> Stacks | Missing:
    """Leave out what tells the threads of two ranks apart that are at the same place."""
    if isinstance(stacks, Missing):
        return stacks
    threads = tuple(_shared_thread(thread, main=thread is stacks.main) for thread in stacks.threads)
    return stacks.model_copy(update={"pid": None, "threads": threads})


def _shared_thread(thread: Thread, *, main: bool) -> Thread:
    active = thread.active if thread.holds_gil else None
    return thread.model_copy(update={"tid": None, "name": "MainThread" if main else thread.name, "active": active})


def _last_events(logs: Logs | Missing) -> Logs | Missing:
    if isinstance(logs, Missing):
        return logs
    return logs.model_copy(update={"files": (), "events": logs.events[-MOST_EVENTS:]})
