"""The agent's HTTP interface: who is here, one look at all of them, and one route per source."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.agent import Agent, RankFilter
from agent.look.look_audit import note_look
from agent.metrics import CONTENT_TYPE, Metrics
from agent.registration import registered
from agent.settings import AgentSettings
from agent.sources.source import LookDepth
from shared import VERSION
from shared.errors import NotFound, TooBusy
from shared.missing import Missing
from shared.server.api.application import Api
from shared.server.api.deep_look import ChildPid, DeepHow, TracedSeconds
from shared.server.api.methods import HeadAsGet
from shared.server.gate import Gate, who_asks
from shared.server.problem_handlers import problems
from shared.server.tokens import require_token
from shared.value import Value, as_json
from shared.wire.debug_output import DeepLook
from shared.wire.log_events import Logs
from shared.wire.snapshot import Fds, NodeSnapshot, Process, RankList
from shared.wire.stacks import Stacks
from shared.wire.survey_form import Survey
from shared.wire.survey_write import survey_of
from shared.wire.trace import Trace

_SMALLEST_LOOK_SECONDS = 0.5

_LEAST_GZIPPED_BYTES = 4096
"""Looks shrink to a tenth: a collector asks a thousand nodes at once, and keeps the answers as they come."""


class AvoidedUser(Value):
    """A user some of whose processes are not read, because reading about them blocked."""

    user: str | None = Field(description="As in a rank's identity; null where the kernel did not tell.")
    processes: int = Field(description="How many of them blocked and live.")
    wholly: bool = Field(description="True: nothing new of this user is read while they block, and for ten minutes.")


class AgentHealth(Value):
    """The agent answers. `degraded`: it does not read everything."""

    status: Literal["ok", "degraded"] = "ok"
    version: str = VERSION
    host: str
    avoided: tuple[AvoidedUser, ...] = ()
    lost_threads: int = Field(default=0, description="Looks that never came back.")


def _agent(request: Request) -> Agent:
    agent: Agent = request.app.state.agent
    return agent


Asked = Annotated[Agent, Depends(_agent)]
Timeout = Annotated[
    float | None,
    Query(
        ge=_SMALLEST_LOOK_SECONDS,
        le=300,
        description="Seconds this look may take; at most the agent's own limit.",
    ),
]
Stacking = Annotated[
    Literal["plain", "native", "none"],
    Query(description="`plain`: Python frames, ~10 ms pause per rank; `native`: C frames too, ~1 s; `none`: no pause."),
]
Threads = Annotated[
    Literal["python", "all"],
    Query(description="Whose `native` stacks; `all`: those that Python does not know, too, where `debuggers` is on."),
]
Window = Annotated[int, Query(ge=0, le=1_000_000, description="Finished flight records to keep per group and lane.")]
Job = Annotated[str | None, Query(max_length=212, description="Only this job: its name, or `NAME@USER`.")]
User = Annotated[str | None, Query(max_length=80, description="Only this user's job of that name.")]
Full = Annotated[bool, Query(description="Everything: all records, all descriptors, all lines of log tails.")]
Ras = Annotated[
    bool,
    Query(description="Also ask NCCL RAS about the whole job, where that is safe; ask one node of a job, not all."),
]
Pid = Annotated[int, Path(ge=1, le=2**31, description="Process id of the rank on this node.")]


def create_app(settings: AgentSettings, agent: Agent | None = None) -> FastAPI:
    """Build the ASGI application of an agent, a new one if none is given. Without its lifespan it keeps no beat."""
    app = Api(title="unhang agent", version=VERSION, lifespan=_lifespan, description=__doc__ or "")
    app.state.agent = agent or Agent(settings)
    app.state.audit = app.state.agent.audit
    app.add_middleware(GZipMiddleware, minimum_size=_LEAST_GZIPPED_BYTES, compresslevel=1)
    app.add_middleware(HeadAsGet)
    app.add_middleware(Gate, token_file=settings.token_file, audit=app.state.audit)
    app.add_middleware(_ProblemCounter, metrics=app.state.agent.metrics)
    app.include_router(_open_routes)
    guards = [Depends(HTTPBearer(auto_error=False)), Depends(require_token(settings.token_file))]
    for router in (_routes, _rank_routes):
        app.include_router(router, dependencies=guards)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    agent: Agent = app.state.agent
    agent.start()
    try:
        with registered(agent.settings, agent.digests):
            yield
    finally:
        agent.stop()
        agent.audit.close()


_open_routes = APIRouter()
_routes = APIRouter()
_rank_routes = APIRouter(responses=problems(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE))


@_open_routes.get("/healthz", response_model=AgentHealth, summary="Whether the agent answers.")
def health(agent: Asked) -> Response:
    """Say that the agent is running. Needs no token and looks at no process."""
    node = agent.node
    avoided = tuple(AvoidedUser(user=a.user, processes=len(a.pids), wholly=a.wholly) for a in node.avoided())
    status: Literal["ok", "degraded"] = "degraded" if avoided else "ok"
    return _json(AgentHealth(status=status, host=node.host, avoided=avoided, lost_threads=node.abandoned))


@_routes.get(
    "/metrics",
    response_class=Response,
    summary="Prometheus metrics",
    responses={200: {"content": {"text/plain": {}}}},
)
def metrics(agent: Asked) -> Response:
    """Tell Prometheus how the agent and its ranks are doing."""
    return Response(agent.metrics.page(), media_type=CONTENT_TYPE)


@_routes.get("/v1/ranks", response_model=RankList, summary="Ranks on this node")
def ranks(agent: Asked) -> Response:
    """List the living ranks and those that have exited, without looking at anyone."""
    return _json(agent.ranks())


@_routes.get("/v1/snapshot", response_model=NodeSnapshot, summary="One look at the ranks of this node")
def snapshot(
    request: Request,
    agent: Asked,
    job: Job = None,
    user: User = None,
    pid: Annotated[list[int] | None, Query(max_length=1024, description="Only these process ids.")] = None,
    stacks: Stacking = "plain",
    threads: Threads = "python",
    window: Window = 64,
    full: Full = False,
    ras: Ras = False,
    timeout: Timeout = None,
) -> Response:
    """Look at all ranks, those of one job, or some. What cannot be read is reported as `Missing`, never left out."""
    depth = LookDepth(stacks, window, full, every_thread=threads == "all" and agent.settings.debuggers)
    taken = agent.snapshot(RankFilter(job, tuple(pid or ()), user), depth, timeout, ras=ras)
    note_look(agent.audit, taken, who_asks(request), action="snapshot", stacks=stacks, ras=ras)
    return _json(taken)


@_routes.get("/v1/survey", response_model=Survey, summary="One brief look at a job's ranks of this node")
def survey(
    request: Request, agent: Asked, job: Job = None, user: User = None, ras: Ras = False, timeout: Timeout = None
) -> Response:
    """Look at a job as one that runs on hundreds of nodes is looked at first: what ranks share is said once."""
    taken, others = agent.look_briefly(RankFilter(job, user=user), timeout, ras=ras)
    note_look(agent.audit, taken, who_asks(request), action="survey", stacks="plain", ras=ras)
    return _json(survey_of(taken, others))


@_rank_routes.get("/v1/ranks/{pid}/stacks", response_model=Stacks | Missing, summary="Stacks of one rank")
def stacks_of(
    request: Request, agent: Asked, pid: Pid, stacks: Stacking = "plain", timeout: Timeout = None
) -> Response:
    """Return where every thread of one rank is."""
    return _part(request, agent, pid, "stacks", LookDepth(stacks=stacks), timeout)


@_rank_routes.get("/v1/ranks/{pid}/fds", response_model=Fds | Missing, summary="Descriptors of one rank")
def fds_of(request: Request, agent: Asked, pid: Pid, full: Full = True, timeout: Timeout = None) -> Response:
    """Return what one rank holds open; by default with the full list."""
    return _part(request, agent, pid, "fds", LookDepth("none", full=full), timeout)


@_rank_routes.get("/v1/ranks/{pid}/logs", response_model=Logs | Missing, summary="Log tails of one rank")
def logs_of(request: Request, agent: Asked, pid: Pid, full: Full = True, timeout: Timeout = None) -> Response:
    """Return the ends of one rank's logs and the events in them."""
    return _part(request, agent, pid, "logs", LookDepth("none", full=full), timeout)


@_rank_routes.get("/v1/ranks/{pid}/recorder", response_model=Trace | Missing, summary="Flight record of one rank")
def recorder_of(
    request: Request, agent: Asked, pid: Pid, window: Window = 64, full: Full = False, timeout: Timeout = None
) -> Response:
    """Return the collectives that one rank has issued."""
    return _part(request, agent, pid, "recorder", LookDepth("none", window, full), timeout)


@_rank_routes.get("/v1/ranks/{pid}/process", response_model=Process | Missing, summary="/proc facts of one rank")
def process_of(request: Request, agent: Asked, pid: Pid, timeout: Timeout = None) -> Response:
    """Return what the kernel reports about one rank's process."""
    return _part(request, agent, pid, "process", LookDepth("none"), timeout)


@_rank_routes.get("/v1/ranks/{pid}/deep", response_model=DeepLook, summary="A closer look at one rank")
def deep_of(
    request: Request,
    agent: Asked,
    pid: Pid,
    how: DeepHow,
    seconds: TracedSeconds = 3.0,
    child: ChildPid = None,
) -> Response:
    """Run a debugger or strace on one rank, which stops or slows it: only where the setting `debuggers` allows."""
    taken = agent.deep(pid, how, seconds, child)
    result = [] if taken.missing is None else [f"{taken.missing.source} {taken.missing.reason}"]
    agent.audit.write(
        how.value,
        **who_asks(request),
        pids=[pid if child is None else child],
        result=result,
        took_seconds=taken.took_seconds,
    )
    return _json(taken)


def _part(request: Request, agent: Agent, pid: int, name: str, question: LookDepth, timeout: float | None) -> Response:
    try:
        taken = agent.one(pid, question, timeout)
    except (NotFound, TooBusy) as error:
        result = "not_found" if isinstance(error, NotFound) else "timed_out"
        agent.audit.write(name, **who_asks(request), pids=[pid], result=[result])
        raise
    note_look(agent.audit, taken, who_asks(request), action=name, stacks=question.stacks)
    part: BaseModel = getattr(taken.ranks[0], name)
    return _json(part)


class _ProblemCounter:
    """Counts the requests that are answered with a problem."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
                self._metrics.problem_answered(message["status"])
            await send(message)

        await self._app(scope, receive, counted)


def _json(value: BaseModel) -> Response:
    return Response(as_json(value), media_type="application/json")
