"""Diagnoses that are being made: one at a time per job, shared by everyone who asks for it meanwhile."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pydantic import Field

from collector.question import Question, Stage, Step
from shared.diagnosis import Diagnosis
from shared.errors import UnhangError, quoted
from shared.value import Value

MOST_RUNNING = 8
"""Different jobs diagnosed at once. More wait for their turn."""

MOST_WAITING = 64
"""Runs that have not ended. A further one is turned away."""

_FAILURES_KEPT = 256

_log = logging.getLogger(__name__)


class Busy(UnhangError):
    """Too many diagnoses are being made."""


class Unfinished(UnhangError):
    """A diagnosis ended in an error of ours, or with the service."""


class RunState(Value):
    """A diagnosis that is not ready yet. Ask again at the same address."""

    id: str = Field(description="The id that the diagnosis will have.")
    job: str | None = None
    status: str = Field(default="running", examples=["running"])
    started_at: str = Field(default="", description="RFC 3339, UTC.")
    step: Step = Field(default=Step(stage=Stage.FINDING), description="How far it has come.")


@dataclass
class Run:
    """One diagnosis in the making."""

    id: str
    question: Question
    started_at: str
    step: Step = field(default_factory=lambda: Step(stage=Stage.FINDING))
    task: "asyncio.Task[Diagnosis] | None" = None

    @property
    def state(self) -> RunState:
        """Return what is told to those who ask meanwhile."""
        return RunState(id=self.id, job=self.question.job, started_at=self.started_at, step=self.step)

    async def within(self, seconds: float) -> Diagnosis | None:
        """Return the diagnosis if it is ready within `seconds`, else None; the run goes on in either case.

        Raises what ended the run.
        """
        assert self.task is not None
        done, _ = await asyncio.wait([self.task], timeout=seconds)
        return self.task.result() if done else None


Make = Callable[[Run], Awaitable[Diagnosis]]
"""Makes the diagnosis and keeps it; what it raises ends the run."""


class Runs:
    """All runs that have not ended, by job, and the failures of the latest that have."""

    def __init__(self, make: Make, *, most_running: int = MOST_RUNNING, most_waiting: int = MOST_WAITING) -> None:
        self._make = make
        self._turns = asyncio.Semaphore(most_running)
        self._most_waiting = most_waiting
        self._by_job: dict[str | None, Run] = {}
        self._failures: OrderedDict[str, UnhangError] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_job)

    def start(self, run: Run) -> Run:
        """Start `run`, or return the one that is under way for the same job. Raises Busy."""
        under_way = self._by_job.get(run.question.job)
        if under_way is not None:
            return under_way
        if len(self._by_job) >= self._most_waiting:
            raise Busy(f"{len(self._by_job)} diagnoses are being made", advice="try again in a few seconds")
        self._by_job[run.question.job] = run
        run.task = asyncio.create_task(self._take_turn(run), name=f"diagnosis {run.id}")
        run.task.add_done_callback(lambda task: self._end(run, task))
        return run

    def find(self, id: str) -> Run | None:
        """Return the run that will give the diagnosis `id`, if it is under way. Raises what ended it, if it failed."""
        if id in self._failures:
            raise self._failures[id].with_traceback(None)
        return next((run for run in self._by_job.values() if run.id == id), None)

    async def stop(self) -> None:
        """Cancel all runs and wait until they have ended."""
        tasks = [run.task for run in self._by_job.values() if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take_turn(self, run: Run) -> Diagnosis:
        async with self._turns:
            return await self._make(run)

    def _end(self, run: Run, task: "asyncio.Task[Diagnosis]") -> None:
        self._by_job.pop(run.question.job, None)
        if task.cancelled():
            self._fail(run, Unfinished("the collector was stopped before the diagnosis was made"))
            return
        error = task.exception()
        if isinstance(error, UnhangError):
            self._fail(run, error)
        elif error is not None:
            _log.error("diagnosis %s of %s failed", run.id, quoted(str(run.question.job)), exc_info=error)
            name = type(error).__name__
            self._fail(run, Unfinished(f"the diagnosis was not finished: {name}", advice="ask for a new one"))

    def _fail(self, run: Run, error: UnhangError) -> None:
        self._failures[run.id] = error
        while len(self._failures) > _FAILURES_KEPT:
            self._failures.popitem(last=False)
