"""Which diagnoses are in progress, and at which collector: how replicas coordinate. All calls block.

1. A run is a row, and an index allows one `running` row per job: the replica that adds it makes the diagnosis, others
   join it.
2. Its owner keeps renewing it. Once the last renewal is too long ago, by the database's clock, the run counts as
   interrupted, whatever the row says, and the next request about the job starts a new one.
3. Storing a diagnosis removes its row, in one transaction; a run that failed leaves the reason.
"""

from enum import StrEnum
from typing import Any

from pydantic import Field, ValidationError
from sqlalchemy import Connection, Select, delete, exists, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql import ColumnElement

from collector.keep.database import Database
from collector.keep.tables import diagnoses, job_key, plain, runs
from collector.question import Stage, Step
from shared.errors import InvalidInput, InvalidSettings, NotFound, NotPermitted, UnhangError, Unreachable, quoted
from shared.value import Value

_MOST_ENDED = 1000
"""Most failed runs that are remembered for those who ask about them."""

_TRIES = 5
"""The run that has the job may end between two statements, and another one begin."""


class Unfinished(UnhangError):
    """A diagnosis ended in an error of ours."""


class Interrupted(UnhangError):
    """The collector that made a diagnosis ended before it was ready."""


_TOLD_AS = {
    kind.__name__: kind for kind in (InvalidInput, InvalidSettings, NotFound, NotPermitted, Unreachable, Unfinished)
}


class RunState(Value):
    """A diagnosis that is not ready yet. Ask again at the same address."""

    id: str = Field(description="The id that the diagnosis will have.")
    job: str | None = None
    status: str = Field(default="running", examples=["running"])
    started_at: str = Field(default="", description="RFC 3339, UTC.")
    step: Step = Field(default=Step(stage=Stage.FINDING), description="How far it has come.")


class RunStatus(StrEnum):
    """The state of a run. There is none for a run that succeeded: its diagnosis replaces it."""

    RUNNING = "running"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Trouble(Value):
    """What ended a run, for those who ask another collector."""

    kind: str
    text: str
    advice: str = ""


class Ledger:
    """The runs in one database, as one collector sees them."""

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        self.lease_seconds = lease_seconds
        self._database = database
        self._owner = database.owner

    def hold(self, run: RunState) -> RunState:
        """Enter `run`, or say that it is still alive; return who has the job: it, or another collector's run.

        The run of a collector that has not renewed its lease for too long does not count. Raises StoreTrouble.
        """
        with self._database.write() as connection:
            for _ in range(_TRIES):
                if self._renew(connection, run) or self._enter(connection, run):
                    return run
                other = connection.execute(_run_of(run.job)).mappings().one_or_none()
                if other is not None:
                    return RunState(
                        id=other["id"], job=run.job, started_at=other["started_at"], step=_step(other["step"])
                    )
        return run

    def find(self, id: str) -> RunState | None:
        """Return a run that is under way, None where there is none. Raises what ended it, and StoreTrouble."""
        expired = (runs.c.alive_until_ms < self._database.now_ms).label("expired")
        with self._database.read() as connection:
            row = connection.execute(select(runs, expired).where(runs.c.id == plain(id))).mappings().one_or_none()
        if row is None:
            return None
        if row["status"] == RunStatus.FAILED:
            raise _failure(row["trouble"])
        if row["status"] == RunStatus.INTERRUPTED or row["expired"]:
            raise interrupted(row["owner"].partition("/")[0])
        return RunState(id=row["id"], job=row["job"], started_at=row["started_at"], step=_step(row["step"]))

    def fail(self, id: str, error: UnhangError) -> None:
        """Record what ended a run of ours, and drop the oldest failed runs. Raises StoreTrouble."""
        kind = next((name for name, kind in _TOLD_AS.items() if isinstance(error, kind)), Unfinished.__name__)
        trouble = Trouble(kind=kind, text=plain(str(error)), advice=plain(error.advice))
        with self._database.write() as connection:
            ended = {"status": RunStatus.FAILED.value, "trouble": trouble.model_dump_json()}
            connection.execute(update(runs).where(self._ours(), runs.c.id == id).values(ended))
        with self._database.write() as connection:
            if self._database.try_lock(connection, "prune"):
                last = select(runs.c.id).where(runs.c.status != RunStatus.RUNNING.value).order_by(runs.c.id.desc())
                oldest = last.offset(_MOST_ENDED).limit(1).scalar_subquery()
                connection.execute(delete(runs).where(runs.c.status != RunStatus.RUNNING.value, runs.c.id <= oldest))

    def interrupt(self, id: str | None = None) -> None:
        """Give up one run of ours, or all: others need not wait for the lease to expire. Raises StoreTrouble."""
        which = [self._ours(), runs.c.status == RunStatus.RUNNING.value, *([] if id is None else [runs.c.id == id])]
        with self._database.write() as connection:
            connection.execute(update(runs).where(*which).values(status=RunStatus.INTERRUPTED.value))

    def _ours(self) -> ColumnElement[bool]:
        return runs.c.owner == self._owner

    def _alive(self, run: RunState) -> dict[str, object]:
        return {
            "status": RunStatus.RUNNING.value,
            "step": run.step.model_dump_json(),
            "alive_until_ms": self._database.now_ms + int(self.lease_seconds * 1000),
        }

    def _renew(self, connection: Connection, run: RunState) -> bool:
        """Renew the run. One that was given up comes back if no other run of the job has begun."""
        still = runs.c.status.in_((RunStatus.RUNNING.value, RunStatus.INTERRUPTED.value))
        try:
            with connection.begin_nested():
                renewed = connection.execute(
                    update(runs).where(runs.c.id == run.id, self._ours(), still).values(self._alive(run))
                )
        except IntegrityError:
            return False
        return renewed.rowcount == 1

    def _enter(self, connection: Connection, run: RunState) -> bool:
        """Begin a run, unless another one is alive. One whose diagnosis is stored is over and does not begin again."""
        if connection.execute(select(exists().where(diagnoses.c.id == run.id))).scalar_one():
            return True
        dead = (runs.c.status == RunStatus.RUNNING.value) & (runs.c.alive_until_ms < self._database.now_ms)
        connection.execute(
            update(runs).where(runs.c.job_key == job_key(run.job), dead).values(status=RunStatus.INTERRUPTED.value)
        )
        row = {
            "id": run.id,
            "job": None if run.job is None else plain(run.job),
            "job_key": job_key(run.job),
            "owner": self._owner,
            "started_at": run.started_at,
            **self._alive(run),
        }
        try:
            with connection.begin_nested():
                connection.execute(insert(runs).values(row))
        except IntegrityError:
            return False
        return True


def interrupted(where: str) -> Interrupted:
    """Return the message about a run whose collector, on the host `where`, is gone."""
    return Interrupted(
        f"the diagnosis was interrupted: the collector on {quoted(where)} ended before it was ready",
        advice="ask for a new one",
    )


def end_run(connection: Connection, id: str) -> None:
    """Remove a run, in the transaction that stores its diagnosis."""
    connection.execute(delete(runs).where(runs.c.id == id))


def _run_of(job: str | None) -> Select[Any]:
    return select(runs).where(runs.c.job_key == job_key(job), runs.c.status == RunStatus.RUNNING.value)


def _step(text: str) -> Step:
    try:
        return Step.model_validate_json(text)
    except ValidationError:
        return Step(stage=Stage.FINDING)  # a later version may know other stages


def _failure(text: str | None) -> UnhangError:
    try:
        trouble = Trouble.model_validate_json(text or "")
    except ValidationError:
        return Unfinished("the diagnosis was not finished", advice="ask for a new one")
    return _TOLD_AS.get(trouble.kind, Unfinished)(trouble.text, advice=trouble.advice)
