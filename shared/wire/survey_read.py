"""Reads surveys: rebuilds the snapshots from which they were made, as far as they go."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from shared.missing import Missing, Reason
from shared.rank_sets import out_of_steps
from shared.value import made, unpacked
from shared.wire.columns import blank, by_owner, fields_of, pick
from shared.wire.devices import Gpu, GpuProcess, Gpus
from shared.wire.kernel_events import KernelEvent, KernelEvents
from shared.wire.log_events import LogEvent, LogFile, Logs
from shared.wire.setup import Setup
from shared.wire.snapshot import Beat, Identity, NodeSnapshot, Process, RankSnapshot
from shared.wire.stacks import Stacks
from shared.wire.survey_form import TIMES, BeatColumns, Survey, SurveyedGroup, exchange_quotes
from shared.wire.trace import Group, Trace

MOST_MEMBERS = 131_072
"""Of one group in steps: a few characters can claim many members."""

_MOST_RECORDS = 2_097_152
"""Of all ranks of a node: where the times are left out, a few characters can claim many."""

_FDS = Missing(
    source="fds",
    reason=Reason.NOT_ENABLED,
    detail="not in the survey of a large job; suspects were examined separately",
)
_EMPTY = ("children", "beside", "above", "followed", "awaited", "served")
_BLANK = {**dict.fromkeys(RankSnapshot.model_fields), "fds": _FDS, **dict.fromkeys(_EMPTY, ())}
"""What a rank has of which a survey says nothing."""

_T = TypeVar("_T")

_PROCESS: TypeAdapter[Process | Missing] = TypeAdapter(Process | Missing)
_STACKS: TypeAdapter[Stacks | Missing] = TypeAdapter(Stacks | Missing)
_SETUP: TypeAdapter[Setup | Missing] = TypeAdapter(Setup | Missing)
_LOGS: TypeAdapter[Logs | Missing] = TypeAdapter(Logs | Missing)
_TRACE: TypeAdapter[Trace | Missing] = TypeAdapter(Trace | Missing)

_NO_BEAT = made(Beat, blank(BeatColumns))
_FILE = LogFile(path="")
_USER = GpuProcess(pid=0)


class SurveyReader:
    """Rebuilds snapshots from the surveys of one sweep. What many nodes report alike is parsed and kept once."""

    def __init__(self) -> None:
        self._identities = _Reading(Identity.model_validate_json)
        self._processes = _Reading(_PROCESS.validate_json)
        self._stacks = _Reading(_STACKS.validate_json)
        self._setups = _Reading(_SETUP.validate_json)
        self._logs = _Reading(_LOGS.validate_json)
        self._events = _Reading(LogEvent.model_validate_json)
        self._groups = _Reading(_read_group)
        self._programs = _Reading(_TRACE.validate_json)
        self._gpus = _Reading(Gpu.model_validate_json)
        self._kernel_events = _Reading(KernelEvent.model_validate_json)

    def snapshot_of(self, survey: Survey) -> NodeSnapshot:
        """Return the snapshot from which a survey was made, as far as it goes. Raises ValueError or InvalidRankSet."""
        ranks = tuple(self._ranks(survey))
        return made(NodeSnapshot, {**survey.node.__dict__, "ranks": ranks, **self._devices(survey)})

    def _ranks(self, survey: Survey) -> Iterator[RankSnapshot]:
        ranks, tables = survey.ranks, survey.tables
        rows = self._setups.rows(tables.setups, survey.setups.row)
        setups = [
            made(Setup, own) if isinstance(row, Setup) else row
            for row, own in zip(rows, fields_of(survey.setups, rows), strict=True)
        ]
        columns: dict[str, Iterable[Any]] = {
            "identity": self._identities_of(survey),
            "looked_at_ns": ranks.looked_at_ns,
            "process": self._processes_of(survey),
            "stacks": self._stacks.rows(tables.stacks, ranks.stacks),
            "logs": self._logs_of(survey),
            "recorder": self._recorders_of(survey),
            "setup": pick(setups, ranks.setup),
            "idle_for_seconds": ranks.idle_for_seconds,
        }
        if ranks.watched_for_seconds:
            columns["watched_for_seconds"] = ranks.watched_for_seconds
        for own in zip(*columns.values(), strict=True):
            yield made(RankSnapshot, {**_BLANK, **dict(zip(columns, own, strict=False))})

    def _identities_of(self, survey: Survey) -> list[Identity]:
        rows = self._identities.rows(survey.tables.identities, survey.ranks.identity.row)
        return [made(Identity, own) for own in fields_of(survey.ranks.identity, rows)]

    def _processes_of(self, survey: Survey) -> Iterator[Process | Missing]:
        ranks = survey.ranks
        rows = self._processes.rows(survey.tables.processes, ranks.process.row)
        before = [_beat(own) for own in fields_of(ranks.before, [_NO_BEAT] * len(rows))]
        after = [_beat(own) for own in fields_of(ranks.after, [beat or _NO_BEAT for beat in before])]
        for row, own, earlier, later in zip(rows, fields_of(ranks.process, rows), before, after, strict=True):
            own["before"], own["after"] = earlier, later
            yield made(Process, own) if isinstance(row, Process) else row

    def _logs_of(self, survey: Survey) -> Iterator[Logs | Missing]:
        ranks = survey.ranks
        rows = self._logs.rows(survey.tables.logs, ranks.logs)
        files = [made(LogFile, own) for own in fields_of(ranks.files, [_FILE] * len(ranks.files.owner))]
        shared = self._events.rows(survey.tables.events, ranks.events.row)
        events = [made(LogEvent, own) for own in fields_of(ranks.events, shared)]
        owned_files = by_owner(ranks.files.owner, files, len(rows))
        owned_events = by_owner(ranks.events.owner, events, len(rows))
        for row, own_files, own_events in zip(rows, owned_files, owned_events, strict=True):
            yield (
                made(Logs, {**row.__dict__, "files": own_files, "events": own_events}) if isinstance(row, Logs) else row
            )

    def _recorders_of(self, survey: Survey) -> Iterator[Trace | Missing]:
        recorder = survey.ranks.recorder
        programs = self._programs.rows(survey.tables.programs, recorder.program)
        groups = self._groups.all(survey.tables.groups)
        most = sum(len(program) for program in programs if isinstance(program, Trace))
        times = {name: unpacked(column) for name in TIMES if (column := getattr(recorder, name))}
        if most > _MOST_RECORDS:
            raise ValueError(f"more than {_MOST_RECORDS} records")
        if any(len(column) != most for column in times.values()):
            raise ValueError("the times of the flight records are not as long as their programs")
        begin = 0
        for program, indices in zip(programs, recorder.groups, strict=True):
            if isinstance(program, Missing):
                yield program
                continue
            if len(indices) != len(program.groups):
                raise ValueError("a flight record does not fit its program")
            end = begin + len(program)
            own = {name: column[begin:end] for name, column in times.items()}
            yield made(Trace, {**program.__dict__, "groups": tuple(pick(groups, indices)), **own})
            begin = end

    def _devices(self, survey: Survey) -> dict[str, Any]:
        """Return the node's GPUs and kernel events."""
        node, tables = survey.node, survey.tables
        devices: dict[str, Any] = {}
        if isinstance(node.gpus, Gpus):
            users = [
                made(GpuProcess, own)
                for own in fields_of(survey.gpu_processes, [_USER] * len(survey.gpu_processes.owner))
            ]
            gpus = fields_of(survey.gpus, self._gpus.rows(tables.gpus, survey.gpus.row))
            for own, its in zip(gpus, by_owner(survey.gpu_processes.owner, users, len(gpus)), strict=True):
                own["processes"] = its
            devices["gpus"] = made(Gpus, {**node.gpus.__dict__, "gpus": tuple(made(Gpu, own) for own in gpus)})
        if isinstance(node.kernel_events, KernelEvents):
            rows = self._kernel_events.rows(tables.kernel_events, survey.kernel_events.row)
            events = tuple(made(KernelEvent, own) for own in fields_of(survey.kernel_events, rows))
            devices["kernel_events"] = made(KernelEvents, {**node.kernel_events.__dict__, "events": events})
        return devices


class _Reading(Generic[_T]):
    """Reads each text once."""

    def __init__(self, read: Callable[[str], _T]) -> None:
        self._read = read
        self._known: dict[str, _T] = {}

    def all(self, texts: Sequence[str]) -> list[_T]:
        """Return what each text says."""
        for text in texts:
            if text not in self._known:
                self._known[text] = self._read(exchange_quotes(text))
        return [self._known[text] for text in texts]

    def rows(self, texts: Sequence[str], indices: Sequence[int]) -> list[_T]:
        """Return what the texts at `indices` say. Raises ValueError on an index outside them."""
        return pick(self.all(texts), indices)


def _beat(own: dict[str, Any]) -> Beat | None:
    return None if own["at_ns"] is None else made(Beat, own)


def _read_group(text: str) -> Group:
    group = SurveyedGroup.model_validate_json(text)
    members = None if group.members is None else out_of_steps(group.members, most=MOST_MEMBERS)
    return made(Group, {**group.__dict__, "members": members})
