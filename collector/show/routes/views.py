"""One aspect of a job over all its ranks, looked at now, or as it was when a diagnosis was made."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from collector.align.expected import Expected
from collector.concurrency.threads import run_in_thread
from collector.question import NativePolicy, Question, Scope
from collector.show.routes.common import Accept, JobName, Ranks, ServiceDependency, choose_media, json_answer
from collector.show.routes.kept_views import KeptViews
from collector.show.routes.rights import SightDependency
from collector.show.text.stacks import render_classes, render_folded, render_others, render_tree, speedscope
from collector.show.timeline import TimelineView, view_timeline
from collector.show.views import (
    ChecksView,
    ClassesView,
    FdsView,
    LogsView,
    SequencesView,
    TreeView,
    native_only,
    only,
    view_checks,
    view_classes,
    view_fds,
    view_logs,
    view_sequences,
    view_tree,
)
from shared.errors import NotFound, quoted
from shared.rank_sets import fold
from shared.server.api.deep_look import ChildPid, DeepHow, TracedSeconds
from shared.server.problem_handlers import problems
from shared.value import Value
from shared.wire.debug_output import DeepLook
from shared.wire.snapshot import NodeSnapshot

router = APIRouter(
    prefix="/v1/jobs",
    tags=["views"],
    responses=problems(HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
)
_OF_MEDIA = problems(HTTPStatus.NOT_ACCEPTABLE)

Seen = tuple[tuple[NodeSnapshot, ...], Expected]
P = ParamSpec("P")
V = TypeVar("V", bound=Value)

_MEDIA = ("application/json", "text/plain")

Earlier = Annotated[
    str | None,
    Query(description="Id of a diagnosis: show what was seen then instead of looking now.", max_length=64),
]


class StackFormat(StrEnum):
    """How merged stacks are written."""

    TREE = "tree"
    CLASSES = "classes"
    FOLDED = "folded"
    SPEEDSCOPE = "speedscope"


class SequenceFormat(StrEnum):
    """How the sequences of process groups are written."""

    MARKS = "marks"
    PERFETTO = "perfetto"


@dataclass(frozen=True)
class Looked:
    """What a view is of: a look at a job that `see` takes now, or what was seen when a diagnosis was made."""

    see: Callable[[], Awaitable[Seen]]
    views: KeptViews
    of: tuple[str, str, frozenset[int] | None] | None = None
    """The diagnosis, its job and the ranks; None: it is looked at now."""

    async def view(self, make: Callable[Concatenate[Sequence[NodeSnapshot], Expected, P], V], **given: Any) -> V:
        """Return one view."""
        snapshots, expected = await self.see()
        return await run_in_thread(partial(make, snapshots, expected, **given))

    async def answer(
        self, make: Callable[Concatenate[Sequence[NodeSnapshot], Expected, P], V], **given: Any
    ) -> Response:
        """Return one view as JSON; of a kept diagnosis it is made once."""

        async def body() -> bytes:
            view = await self.view(make, **given)
            return (await run_in_thread(partial(view.model_dump_json, by_alias=True))).encode()

        if self.of is None:
            made = await body()
        else:
            made = await self.views.get((self.of, make.__name__, *sorted(given.items())), body)
        return Response(made, media_type="application/json")


@dataclass(frozen=True)
class _Asked:
    """What every view is asked for: a job, as it is now or as it was in a diagnosis, by one caller."""

    request: Request
    service: ServiceDependency
    sight: SightDependency
    job: JobName
    diagnosis: Earlier = None

    async def look(
        self, ranks: frozenset[int] | None, *, stacks: bool, native: bool = False, brief: bool = False
    ) -> Looked:
        """Return what there is to see of the job. Seeing it raises NotFound.

        `brief`: a survey does where the job is large; else `ranks` must say who is to be looked at (InvalidInput).
        """
        views: KeptViews = self.request.app.state.kept_views
        if self.diagnosis is not None:
            await self.sight.diagnosis(self.diagnosis)
            of = (self.diagnosis, self.job, ranks)
            return Looked(partial(self._see_kept, self.diagnosis, ranks), views, of)
        self.sight.require_look()
        question = Question(
            job=await self.sight.job(self.job),
            looks=1,
            native=NativePolicy.ALL if native else NativePolicy.NEVER,
            stacks="plain" if stacks else "none",
            deadline_seconds=self.service.settings.deadline_seconds,
            survey_above=self.service.settings.survey_above,
            scope=Scope.NOBODY if brief and not native else Scope.RANKS,
            ranks=fold(ranks or ()),
        )
        return Looked(partial(self._see_now, question, ranks), views)

    async def _see_kept(self, diagnosis: str, ranks: frozenset[int] | None) -> Seen:
        kept = await self.service.async_store.ask(self.service.store.kept, diagnosis)
        if not self.sight.goes_by(kept.diagnosis, self.job):
            raise NotFound(f"the diagnosis {quoted(diagnosis)} is not of the job {quoted(self.job)}")
        return only(kept.snapshots, kept.expected, ranks=ranks), kept.expected

    async def _see_now(self, question: Question, ranks: frozenset[int] | None) -> Seen:
        try:
            gathered = await self.service.look(question)
        except NotFound as error:
            raise self.sight.unknown(self.job, error) from None
        self.sight.check_looked(question.job or self.job, gathered.snapshots)
        seen = native_only(gathered.snapshots) if question.native is NativePolicy.ALL else gathered.snapshots
        return only(seen, gathered.expected, ranks=ranks), gathered.expected


_AskedDependency = Annotated[_Asked, Depends(_Asked)]


async def _with_stacks(
    asked: _AskedDependency,
    ranks: Ranks,
    native: Annotated[
        bool, Query(description="C and C++ frames too; this stops each rank of the job for about a second.")
    ] = False,
) -> Looked:
    return await asked.look(ranks, stacks=True, native=native, brief=True)


async def _without_stacks(asked: _AskedDependency, ranks: Ranks) -> Looked:
    return await asked.look(ranks, stacks=False)


async def _briefly(asked: _AskedDependency, ranks: Ranks) -> Looked:
    return await asked.look(ranks, stacks=False, brief=True)


async def _every_rank(asked: _AskedDependency) -> Looked:
    return await asked.look(None, stacks=False, brief=True)


WithStacks = Annotated[Looked, Depends(_with_stacks)]
WithoutStacks = Annotated[Looked, Depends(_without_stacks)]
Briefly = Annotated[Looked, Depends(_briefly)]
EveryRank = Annotated[Looked, Depends(_every_rank)]
"""A few ranks of a job do not show whether it was started as a whole."""


@router.get(
    "/{job:path}/stacks",
    summary="All ranks' stacks, merged",
    response_model=None,
    responses={200: {"model": TreeView | ClassesView, "content": {"text/plain": {}}}, **_OF_MEDIA},
)
async def get_stacks(
    looked: WithStacks,
    format: Annotated[
        StackFormat,
        Query(description="`tree`, `classes`: JSON or text. `folded`: for flame graphs. `speedscope`: its JSON."),
    ] = StackFormat.TREE,
    accept: Accept = None,
) -> Response:
    """Merge the stacks of all ranks: who is where, in a few lines for a thousand ranks.

    `tree` has their other threads and their child processes, too.
    """
    as_text = choose_media(accept, _MEDIA) == "text/plain"
    if format is StackFormat.CLASSES:
        if not as_text:
            return await looked.answer(view_classes)
        return PlainTextResponse(render_classes((await looked.view(view_classes)).classes))
    if format is StackFormat.TREE and not as_text:
        return await looked.answer(view_tree)
    tree = await looked.view(view_tree)
    if format is StackFormat.FOLDED:
        return PlainTextResponse(render_folded(tree.tree))
    if format is StackFormat.SPEEDSCOPE:
        return JSONResponse(speedscope(tree.tree, name=tree.job or ""))
    return PlainTextResponse(render_tree(tree.tree) + render_others(tree.others))


@router.get("/{job:path}/check", response_model=ChecksView, summary="Is anything wrong in how the job was started?")
async def get_checks(looked: EveryRank) -> Response:
    """Check ranks, meeting places, ports, interfaces, devices, versions and settings; each with the line to change."""
    return await looked.answer(view_checks)


@router.get("/{job:path}/fds", response_model=FdsView, summary="All ranks' open file descriptors")
async def get_fds(looked: WithoutStacks) -> Response:
    """Sockets with peers and states, pipes and who holds the other end, devices, files by file system."""
    return await looked.answer(view_fds)


@router.get(
    "/{job:path}/logs",
    response_model=LogsView,
    summary="All ranks' last log lines, merged",
    responses={200: {"content": {"text/plain": {"example": "[node07:3] RuntimeError: boom"}}}, **_OF_MEDIA},
)
async def get_logs(
    looked: WithoutStacks,
    lines: Annotated[int, Query(ge=1, le=10_000, description="Last lines of each file.")] = 50,
    accept: Accept = None,
) -> Response:
    """Return the ends of the logs by rank; as text, each line begins with `[host:rank]`. Secrets are taken out."""
    media = choose_media(accept, _MEDIA)
    if media == "text/plain":
        view = await looked.view(view_logs, lines=lines)
        return PlainTextResponse("".join(f"{line}\n" for line in view.lines))
    return await looked.answer(view_logs, lines=lines)


@router.get(
    "/{job:path}/ranks/{rank}/deep",
    response_model=DeepLook,
    summary="A closer look at one rank",
    responses=problems(HTTPStatus.BAD_GATEWAY),
)
async def get_deep_look(
    job: JobName,
    rank: Annotated[int, Path(ge=0, le=1_048_576, description="The global rank.")],
    service: ServiceDependency,
    sight: SightDependency,
    how: DeepHow,
    seconds: TracedSeconds = 3.0,
    child: ChildPid = None,
) -> Response:
    """Run a debugger or strace on one rank, which stops or slows it. Agents refuse unless they are set to allow it."""
    asked = await sight.job(job)
    try:
        return json_answer(await service.look_closely(asked, rank, how, seconds=seconds, child=child))
    except NotFound as error:
        raise sight.unknown(job, error) from None


@router.get(
    "/{job:path}/sequences",
    response_model=SequencesView | TimelineView,
    summary="How far each rank has got in each group",
)
async def get_sequences(
    looked: Briefly,
    format: Annotated[
        SequenceFormat, Query(description="`marks`: a table. `perfetto`: every operation on record, on a time line.")
    ] = SequenceFormat.MARKS,
) -> Response:
    """Per process group: the last sequence each rank has issued and completed, and who is behind."""
    if format is SequenceFormat.PERFETTO:
        return await looked.answer(view_timeline)
    return await looked.answer(view_sequences)
