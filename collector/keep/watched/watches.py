"""Which collector watches a job, what the job was found hung with once, and how long jobs of its name usually pause.

Replicas hear the same digests, and one of them asks: it holds the job's lease by the database's clock. What it has
found once is kept beside the lease, so that whoever takes over after it can confirm it.

All calls block, and raise StoreTrouble.
"""

from typing import NamedTuple

from sqlalchemy import delete, select, update

from collector.keep.database import Database
from collector.keep.tables import job_key, watches

_REMEMBERED_MS = 90 * 86_400_000
"""How long a job's name is remembered after it was last watched."""


class Suspicion(NamedTuple):
    """What a job was found hung with, once."""

    fingerprint: str
    diagnosis: str
    age_seconds: float


class Watches:
    """The watched jobs in one database, as one collector sees them. A job is named as its user's: `NAME@USER`."""

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        self.lease_seconds = lease_seconds
        self._database = database
        self._owner = database.owner

    def hold(self, job: str) -> bool:
        """Take or renew the lease of a job. Returns whether it is ours: nobody else's lease is alive."""
        now_ms = self._database.now_ms
        until_ms = now_ms + int(self.lease_seconds * 1000)
        ours = {"owner": self._owner, "alive_until_ms": until_ms, "seen_ms": now_ms}
        with self._database.write() as connection:
            new = self._database.insert(watches).values(job_key=job_key(job), **ours)
            free = (watches.c.owner == self._owner) | (watches.c.alive_until_ms < now_ms)
            connection.execute(new.on_conflict_do_update(index_elements=["job_key"], set_=ours, where=free))
            owner = select(watches.c.owner).where(watches.c.job_key == job_key(job))
            return bool(connection.execute(owner).scalar_one() == self._owner)

    def suspicion(self, job: str) -> Suspicion | None:
        """Return what it was found hung with once, by whomever."""
        wanted = select(
            watches.c.suspect, watches.c.suspect_diagnosis, watches.c.suspect_ms, self._database.now_ms.label("now_ms")
        ).where(watches.c.job_key == job_key(job))
        with self._database.read() as connection:
            row = connection.execute(wanted).one_or_none()
        if row is None or row.suspect is None:
            return None
        return Suspicion(row.suspect, row.suspect_diagnosis or "", (row.now_ms - row.suspect_ms) / 1000)

    def suspect(self, job: str, fingerprint: str, diagnosis: str) -> None:
        """Note what it was found hung with, once."""
        self._set(job, suspect=fingerprint, suspect_diagnosis=diagnosis, suspect_ms=self._database.now_ms)

    def clear(self, job: str) -> None:
        """Forget that: the job has moved, or was found well."""
        self._set(job, suspect=None, suspect_diagnosis=None, suspect_ms=None)

    def learn(self, job: str, pause_seconds: float) -> None:
        """Note the longest pause that ended by itself."""
        self._set(job, usual_pause_ms=int(pause_seconds * 1000))

    def usual_pause(self, job: str) -> float | None:
        """Return the longest pause, in seconds, that jobs of this name were seen to come out of."""
        wanted = select(watches.c.usual_pause_ms).where(watches.c.job_key == job_key(job))
        with self._database.read() as connection:
            found = connection.execute(wanted).scalar_one_or_none()
        return None if found is None else found / 1000

    def let_go(self) -> None:
        """Leave all our jobs to others at once, and forget names that were not seen for long."""
        now_ms = self._database.now_ms
        with self._database.write() as connection:
            connection.execute(update(watches).where(watches.c.owner == self._owner).values(alive_until_ms=0))
            connection.execute(delete(watches).where(watches.c.seen_ms < now_ms - _REMEMBERED_MS))

    def _set(self, job: str, **columns: object) -> None:
        with self._database.write() as connection:
            connection.execute(update(watches).where(watches.c.job_key == job_key(job)).values(**columns))
