"""This machine: the agent's application is called in this process, no socket is opened."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import httpx

from agent.agent import Agent
from agent.app import create_app
from cli.sources.agent_here import beating, local_settings, search_through
from cli.sources.bundle import judged_here
from cli.sources.helpers import run_with_helpers
from cli.sources.job_source import Aspect, DeepChoice, JobChoice, JobNames, JudgedJob, V, Wanted, make_view
from collector.gather.debug_one_rank import look_closely
from collector.gather.fanout.fanout import make_client
from collector.gather.sweep import gather, list_jobs, sweep
from collector.hostlists import AgentAddress
from collector.question import NativePolicy, Progress, Question
from collector.show.views import native_only
from shared.value import whole
from shared.wire.debug_output import DeepLook

_T = TypeVar("_T")


class OneBox:
    """The ranks on this machine."""

    def __init__(self, agent: Agent | None = None) -> None:
        """`agent` has watched them for a while and remembers those that have ended; None: one for each question."""
        self._agent = agent

    def jobs(self) -> JobNames:
        """Return the jobs that run here."""
        found = ask(list_jobs, self._agent)
        return JobNames(jobs=found.jobs, unanswered=found.unanswered, unread=found.unread)

    def diagnose(self, wanted: Wanted, progress: Progress | None) -> JudgedJob:
        """Look, wait, look again and judge."""

        async def run(agents: Sequence[AgentAddress], client: httpx.AsyncClient) -> JudgedJob:
            swept = await sweep(wanted.question(), agents, client, progress=progress)
            return judged_here(swept.diagnosis, swept.expected, swept.snapshots)

        return ask(run, self._agent)

    def view(self, aspect: Aspect[V], choice: JobChoice) -> V:
        """Look once and return one aspect."""
        question = Question(
            job=choice.job,
            looks=1,
            stacks="plain" if aspect.with_stacks else "none",
            native=NativePolicy.ALL if choice.native else NativePolicy.NEVER,
        )
        gathered = ask(partial(gather, question), self._agent)
        snapshots = native_only(gathered.snapshots) if choice.native else gathered.snapshots
        return make_view(aspect, choice, snapshots, gathered.expected)

    def look_closely(self, choice: DeepChoice) -> DeepLook:
        """Run a debugger or strace on one rank here."""

        async def run(agents: Sequence[AgentAddress], client: httpx.AsyncClient) -> DeepLook:
            return await look_closely(
                choice.job, choice.rank, choice.how, agents, client, seconds=choice.seconds, child=choice.child
            )

        return ask(run, self._agent)


def ask(
    question: Callable[[Sequence[AgentAddress], httpx.AsyncClient], Awaitable[_T]], agent: Agent | None = None
) -> _T:
    """Put a question to this machine's agent: the one that is given, else one that lives for as long as that takes."""

    agents = (AgentAddress(host=whole(socket.gethostname()), url="http://localhost"),)

    async def put() -> _T:
        async with local_client(agent) as client:
            return await question(agents, client)

    return run_with_helpers(put)


@asynccontextmanager
async def local_client(agent: Agent | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client whose requests this machine's agent answers in this process."""
    async with local_agent(agent) as transport, make_client(transport=transport) as client:
        yield client


@asynccontextmanager
async def local_agent(agent: Agent | None = None) -> AsyncIterator[httpx.ASGITransport]:
    """Yield the way to this machine's agent, in this process: without one given, one for as long as the block lasts."""
    app = create_app(local_settings(), agent)
    async with beating(app.state.agent):
        if agent is None:
            await search_through(app.state.agent)
        yield httpx.ASGITransport(app=app, raise_app_exceptions=False)
