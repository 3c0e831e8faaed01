"""Diagnoses in progress: one at a time per job, shared by all who ask for it in the meantime.

1. A request for a job that is being diagnosed here joins that run.
2. Else the run is entered in the ledger that all replicas share. If another replica has the job, its run is followed.
3. If the run is ours, the diagnosis is made, and the run is renewed in the ledger meanwhile.
4. A run of ours that another replica has taken over is dropped, and the other one followed. If the collector of a run
   that we follow is gone, the run starts again here: those who wait for it would ask for that anyway.

If the ledger fails, the diagnosis is made without it.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from collector.concurrency.tasks import end
from collector.keep.async_store import AsyncStore
from collector.keep.database import StoreTrouble
from collector.keep.run_ledger import Interrupted, RunState, Unfinished
from collector.question import Question, Stage, Step
from shared.answer.diagnosis import Diagnosis
from shared.errors import UnhangError, quoted

MOST_RUNNING = 8
"""Different jobs diagnosed at once. More wait for their turn."""

MOST_WAITING = 64
"""Runs that have not ended. A further one is turned away."""

MOST_FOLLOWED_SECONDS = 2 * 3600.0
"""How long another replica is assumed to be at work: twice the longest deadline that a question can have."""

_FAILURES_KEPT = 256
_RENEWALS_PER_LEASE = 4
_FIRST_PAUSE_SECONDS = 0.1
_MOST_PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Busy(UnhangError):
    """Too many diagnoses are in progress."""


@dataclass
class Run:
    """One diagnosis in progress."""

    id: str
    question: Question
    started_at: str
    asked: bool = True
    """False: made because the collector watches the job, until somebody asks for it as well."""
    keep: bool = True
    """False: for whoever looks again and again, until somebody asks who comes back to it."""
    step: Step = field(default_factory=lambda: Step(stage=Stage.FINDING))
    task: "asyncio.Task[Diagnosis] | None" = None
    placed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it is known who makes it, and with that its id."""

    @property
    def state(self) -> RunState:
        """Return the answer to those who ask in the meantime."""
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

    def __init__(
        self, make: Make, async_store: AsyncStore, *, most_running: int = MOST_RUNNING, most_waiting: int = MOST_WAITING
    ) -> None:
        self._make = make
        self._async_store = async_store
        self._ledger = async_store.store.ledger
        self._turns = asyncio.Semaphore(most_running)
        self._most_waiting = most_waiting
        self._by_job: dict[str | None, Run] = {}
        self._failures: OrderedDict[str, UnhangError] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_job)

    async def start(self, run: Run) -> Run:
        """Start `run`, or return the one that is under way for the same job, here or elsewhere. Raises Busy."""
        under_way = self._by_job.get(run.question.job)
        if under_way is None:
            if len(self._by_job) >= self._most_waiting:
                raise Busy(f"{len(self._by_job)} diagnoses are being made", advice="try again in a few seconds")
            under_way = self._by_job[run.question.job] = run
            run.task = asyncio.create_task(self._see_through(run), name=f"diagnosis {run.id}")
            run.task.add_done_callback(lambda task: self._end(run, task))
        under_way.asked = under_way.asked or run.asked
        under_way.keep = under_way.keep or run.keep
        await under_way.placed.wait()
        return under_way

    def find(self, id: str) -> Run | None:
        """Return the run that will give the diagnosis `id`, if it is under way. Raises what ended it, if it failed."""
        if id in self._failures:
            raise self._failures[id].with_traceback(None)
        return next((run for run in self._by_job.values() if run.id == id), None)

    def under_way(self) -> dict[str | None, RunState]:
        """Return the runs of this collector that have not ended, by job."""
        return {job: run.state for job, run in self._by_job.items()}

    async def stop(self) -> None:
        """Cancel all runs, wait until they have ended, and leave their jobs to others."""
        tasks = [run.task for run in self._by_job.values() if run.task is not None]
        await end(*tasks)
        if tasks:
            try:
                await self._async_store.note(self._ledger.interrupt)
            except StoreTrouble:
                pass  # others will see that we are gone

    async def _see_through(self, run: Run) -> Diagnosis:
        """Make the diagnosis, or wait for the replica that makes it. Raises what ended it."""
        own = run.state
        while True:
            theirs = await self._other_one(run, own)
            run.placed.set()
            made = await (self._lead(run) if theirs is None else self._follow(run, theirs))
            if made is not None:
                return made

    async def _other_one(self, run: Run, own: RunState) -> RunState | None:
        """Enter the run under its own id; return the one of another replica that has the job, if there is one."""
        try:
            holder = await self._async_store.note(self._ledger.hold, own)
        except StoreTrouble:
            holder = own
        run.id, run.started_at, run.step = holder.id, holder.started_at, holder.step
        return None if holder.id == own.id else holder

    async def _lead(self, run: Run) -> Diagnosis | None:
        """Make the diagnosis; None where another replica has taken the job over."""
        making = asyncio.create_task(self._take_turn(run))
        holding = asyncio.create_task(self._hold_on(run))
        try:
            await asyncio.wait([making, holding], return_when=asyncio.FIRST_COMPLETED)
            if not making.done():
                _log.warning(
                    "another collector has taken over %s: this one did not renew its lease in time",
                    quoted(str(run.question.job)),
                )
                return None
            if (error := making.exception()) is not None:
                await self._tell_failure(run, error)
            return making.result()
        finally:
            await end(making, holding)

    async def _take_turn(self, run: Run) -> Diagnosis:
        async with self._turns:
            return await self._make(run)

    async def _hold_on(self, run: Run) -> None:
        """Renew the run in the ledger, until another replica has its job."""
        while True:
            await asyncio.sleep(self._ledger.lease_seconds / _RENEWALS_PER_LEASE)
            try:
                holder = await self._async_store.note(self._ledger.hold, run.state)
            except StoreTrouble:
                continue
            if holder.id != run.id:
                return

    async def _follow(self, run: Run, theirs: RunState) -> Diagnosis | None:
        """Wait for another replica's diagnosis; None where it is gone, or cannot be asked about any more."""
        loop = asyncio.get_running_loop()
        renewed = began = loop.time()
        pause = _FIRST_PAUSE_SECONDS
        while loop.time() - began < MOST_FOLLOWED_SECONDS:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _MOST_PAUSE_SECONDS)
            try:
                found = await self._async_store.ask(self._async_store.store.whereabouts, theirs.id)
            except Interrupted:
                return None
            except StoreTrouble:
                if loop.time() - renewed > self._ledger.lease_seconds:
                    return None
                continue
            if found is None or isinstance(found, Diagnosis):
                return found
            renewed, run.step = loop.time(), found.step
        raise Unfinished("another collector has been at it for hours", advice="restart that one, and ask for a new one")

    async def _tell_failure(self, run: Run, error: BaseException) -> None:
        try:
            await self._async_store.note(self._ledger.fail, run.id, _as_told(error))
        except StoreTrouble:
            pass  # it is reported here; elsewhere the run counts as interrupted

    def _end(self, run: Run, task: "asyncio.Task[Diagnosis]") -> None:
        self._by_job.pop(run.question.job, None)
        run.placed.set()
        if task.cancelled():
            self._fail(run, Unfinished("the collector was stopped before the diagnosis was made"))
            return
        error = task.exception()
        if error is None:
            return
        if not isinstance(error, UnhangError):
            _log.error("diagnosis %s of %s failed", run.id, quoted(str(run.question.job)), exc_info=error)
        self._fail(run, _as_told(error))

    def _fail(self, run: Run, error: UnhangError) -> None:
        self._failures[run.id] = error
        while len(self._failures) > _FAILURES_KEPT:
            self._failures.popitem(last=False)


def _as_told(error: BaseException) -> UnhangError:
    if isinstance(error, UnhangError):
        return error
    return Unfinished(f"the diagnosis was not finished: {type(error).__name__}", advice="ask for a new one")
