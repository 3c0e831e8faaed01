"""Diagnoses and the snapshots that they rest on, kept in a database within bounds.

SQLite by default, in write-ahead mode, or PostgreSQL: what `save` has returned from survives a restart and a SIGKILL.
All calls block; a service makes them in threads.
"""

import logging
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError
from sqlalchemy import Connection, delete, func, insert, select
from sqlalchemy.engine import RowMapping

from collector.align.expected import Expected, FoundHung
from collector.gather.answers import read_kept
from collector.gather.failures import NoAnswer
from collector.keep.database import Database, StoreTrouble, create_private, first_line
from collector.keep.kept import Kept
from collector.keep.migrate import migrate
from collector.keep.preflights import Preflights
from collector.keep.registrations import Registrations
from collector.keep.run_ledger import Ledger, RunState, end_run
from collector.keep.seen import diagnoses_seen_by
from collector.keep.tables import diagnoses, incident_diagnoses, job_key, plain, snapshots, versions, watches
from collector.keep.url import StorePlace, parse_store_place
from collector.keep.watched.deliveries import Deliveries
from collector.keep.watched.incidents import Incidents
from collector.keep.watched.silences import Silences
from collector.keep.watched.watches import Watches
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from shared.errors import InvalidSettings, NotFound, UnhangError, quoted
from shared.server.access import UNBOUND, Access
from shared.value import Value
from shared.wire.job_names import qualified
from shared.wire.snapshot import NodeSnapshot

T = TypeVar("T", bound=Value)

LEASE_SECONDS = 10.0

_MOST_INFLATED = 1024 * 1024 * 1024
"""Of one stored blob; the file may have been tampered with."""

_ADVICE = {
    True: "name a file in a directory that this service may write, or move a damaged file away",
    False: "is the server up, does the database exist, and may this user make tables in it?",
}

_log = logging.getLogger(__name__)


class Retention(Value):
    """How much is kept. Whichever bound is reached first, the oldest go; the newest always stays."""

    most_diagnoses: int = Field(default=1000, ge=1)
    most_unasked: int = Field(default=500, ge=1)
    """Of those that nobody asked for: they push out only one another, and take a quarter of the bytes at most."""
    most_days: float = Field(default=30.0, gt=0.0)
    most_bytes: int = Field(default=2 * 1024**3, ge=1)


class Listed(Value):
    """One line of the list of diagnoses."""

    id: str = Field(description="For `GET /v1/diagnoses/{id}`; ids sort by time.")
    job: str | None = None
    made_at: str = Field(description="RFC 3339, UTC.")
    verdict: Verdict
    headline: str


_ZLIB_OR_GZIP = zlib.MAX_WBITS | 32
"""What is compressed here is zlib's; looks that agents sent compressed are gzip's, and are kept as they came."""


class Store:
    """The diagnoses in one database; its parts keep runs, agents, incidents, silences and preflights."""

    def __init__(
        self, place: Path | str, *, retention: Retention | None = None, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        """Open the database, and make its tables or bring them up to date. Raises InvalidSettings."""
        self._retention = retention or Retention()
        self._database = _open(parse_store_place(place))
        self.ledger = Ledger(self._database, lease_seconds=lease_seconds)
        self.registrations = Registrations(self._database)
        self.incidents = Incidents(self._database)
        self.silences = Silences(self._database)
        self.preflights = Preflights(self._database)
        self.watches = Watches(self._database, lease_seconds=lease_seconds)
        self.deliveries = Deliveries(self._database, self.incidents, lease_seconds=lease_seconds)

    def close(self) -> None:
        """Close the database; what SQLite has written ahead is folded into the file."""
        self._database.close()

    def check(self) -> None:
        """Raises StoreTrouble where the database does not answer."""
        with self._database.read() as connection:
            connection.execute(select(versions.c.version_num)).first()

    def save(
        self,
        diagnosis: Diagnosis,
        expected: Expected,
        looks: Sequence[NodeSnapshot],
        *,
        packed: Sequence[bytes] = (),
        asked: bool = True,
        namespaces: Iterable[str] = (),
    ) -> None:
        """Store a diagnosis, then delete the oldest if a limit is reached. Raises StoreTrouble.

        `packed` holds the looks as agents sent them, compressed, if they are at hand: packing them takes long.
        `asked`: somebody wanted it. `namespaces`: all in which pods of the job run; none where that is not known.
        """
        verdict_blob, expected_blob = _pack(diagnosis), _pack(expected)
        blobs = packed or [_pack(look) for look in looks]
        row = {
            "id": diagnosis.id,
            "job": None if diagnosis.job is None else plain(diagnosis.job),
            "job_key": job_key(diagnosis.job),
            "made_at": diagnosis.made_at,
            "made_at_ms": _milliseconds(diagnosis.id),
            "verdict": diagnosis.verdict.value,
            "headline": plain(diagnosis.headline),
            "body": verdict_blob,
            "expected": expected_blob,
            "unasked": int(not asked),
            "owner": None if diagnosis.user is None else plain(diagnosis.user),
            "namespaces": ",".join(sorted(namespaces)),
            "size_bytes": len(verdict_blob) + len(expected_blob) + sum(map(len, blobs)),
        }
        looked = [
            {"diagnosis": diagnosis.id, "position": i, "host": plain(look.host or "") or None, "body": blob}
            for i, (look, blob) in enumerate(zip(looks, blobs, strict=True))
        ]
        with self._database.write() as connection:
            connection.execute(insert(diagnoses), [row])
            if looked:
                connection.execute(insert(snapshots), looked)
            end_run(connection, diagnosis.id)
        self._let_go(now_ms=_milliseconds(diagnosis.id))

    def list(
        self, *, job: str | None = None, limit: int = 50, before: str | None = None, seen_by: Access = UNBOUND
    ) -> tuple[Listed, ...]:
        """Return the newest diagnoses first, at most `limit`, of one `job` where given, older than the id `before`."""
        wanted = select(diagnoses.c.id, diagnoses.c.job, diagnoses.c.made_at, diagnoses.c.verdict, diagnoses.c.headline)
        wanted = wanted.where(*diagnoses_seen_by(seen_by))
        if job is not None:
            names = {job} | {qualified(job, user) for user in seen_by.users or ()}
            wanted = wanted.where(diagnoses.c.job_key.in_(sorted(map(job_key, names))))
        if before is not None:
            wanted = wanted.where(diagnoses.c.id < plain(before))
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(diagnoses.c.id.desc()).limit(limit)).all()
        return tuple(Listed.model_validate(row._asdict()) for row in rows)

    def diagnosis(self, id: str) -> Diagnosis:
        """Return one diagnosis. Raises NotFound."""
        with self._database.read() as connection:
            row = _one(connection, id)
        return _unpack(row["body"], Diagnosis)

    def found_hung(self, job: str) -> FoundHung | None:
        """Return what a job was found hung with, where that is the last that was found of it while it ran."""
        nothing_else = (Verdict.DIED.value, Verdict.CANNOT_TELL.value)
        alive = select(diagnoses.c.verdict, diagnoses.c.body).where(diagnoses.c.verdict.not_in(nothing_else))
        with self._database.read() as connection:
            newest = alive.where(diagnoses.c.job_key == job_key(job)).order_by(diagnoses.c.id.desc()).limit(1)
            row = connection.execute(newest).one_or_none()
        return None if row is None or row.verdict != Verdict.HUNG.value else _unpack(row.body, FoundHung)

    def is_seen_by(self, id: str, access: Access) -> bool:
        """Is there such a diagnosis, and may its job be known to the caller?"""
        wanted = select(diagnoses.c.id).where(diagnoses.c.id == plain(id), *diagnoses_seen_by(access))
        with self._database.read() as connection:
            return connection.execute(wanted).first() is not None

    def excerpts(self, ids: Sequence[str], kind: type[T]) -> dict[str, T]:
        """Return of each diagnosis that is kept what `kind` has fields for. Raises StoreTrouble."""
        wanted = select(diagnoses.c.id, diagnoses.c.body).where(diagnoses.c.id.in_(ids))
        with self._database.read() as connection:
            rows = connection.execute(wanted).all()
        return {row.id: _unpack(row.body, kind) for row in rows}

    def whereabouts(self, id: str) -> Diagnosis | RunState | None:
        """Return a diagnosis, or how far it is; None where neither is known.

        Raises what ended its run, and StoreTrouble.
        """
        for _ in range(2):  # it may become ready between the two questions
            try:
                return self.diagnosis(id)
            except NotFound:
                run = self.ledger.find(id)
            if run is not None:
                return run
        return None

    def kept(self, id: str) -> Kept:
        """Return one diagnosis with its snapshots, in the order in which they were saved. Raises NotFound."""
        wanted = select(snapshots.c.body).where(snapshots.c.diagnosis == id).order_by(snapshots.c.position)
        with self._database.read() as connection:
            row = _one(connection, id)
            looks = connection.execute(wanted).scalars().all()
        return Kept(
            diagnosis=_unpack(row["body"], Diagnosis),
            expected=_unpack(row["expected"], Expected),
            snapshots=tuple(map(_unpack_look, looks)),
        )

    def size(self) -> tuple[int, int]:
        """Return how many diagnoses are kept, and their size in bytes."""
        with self._database.read() as connection:
            count, size = connection.execute(
                select(func.count(), func.coalesce(func.sum(diagnoses.c.size_bytes), 0)).select_from(diagnoses)
            ).one()
        return int(count), int(size)

    def _let_go(self, *, now_ms: int) -> None:
        """Delete the oldest in a separate transaction. If that fails, or a replica is doing it, the next call will."""
        try:
            with self._database.write() as connection:
                alone = self._database.try_lock(connection, "retention")
                forgotten = self._forget(connection, now_ms=now_ms) if alone else 0
            if forgotten:
                self._database.give_back_space()
        except StoreTrouble as trouble:
            _log.warning("old diagnoses stay for now: %s", trouble)

    def _forget(self, connection: Connection, *, now_ms: int) -> int:
        """Delete what the retention no longer covers, oldest first.

        The newest of each kind stays, however large it is, and so does what an incident rests on or will rest on.
        """
        keep = self._retention
        oldest_ms = now_ms - int(keep.most_days * 86_400_000)
        held = select(incident_diagnoses.c.diagnosis)
        suspected = select(watches.c.suspect_diagnosis).where(watches.c.suspect_diagnosis.is_not(None))
        found = connection.execute(
            select(diagnoses.c.id, diagnoses.c.made_at_ms, diagnoses.c.size_bytes, diagnoses.c.unasked)
            .where(diagnoses.c.id.not_in(held), diagnoses.c.id.not_in(suspected))
            .order_by(diagnoses.c.id.desc())
        ).all()
        ours = [row for row in found if row.unasked]
        unasked, taken = _beyond(ours, keep.most_unasked, keep.most_bytes // 4, oldest_ms)
        theirs = [row for row in found if not row.unasked]
        asked, _ = _beyond(theirs, keep.most_diagnoses, keep.most_bytes - taken, oldest_ms)
        gone = unasked + asked
        for first in range(0, len(gone), 500):
            some = gone[first : first + 500]
            connection.execute(delete(snapshots).where(snapshots.c.diagnosis.in_(some)))
            connection.execute(delete(diagnoses).where(diagnoses.c.id.in_(some)))
        return len(gone)


def _beyond(rows: Sequence[Any], most: int, most_bytes: int, oldest_ms: int) -> tuple[list[str], int]:
    """Return which of these rows, newest first, are beyond a bound, and how many bytes the others take."""
    total, gone = 0, []
    for count, row in enumerate(rows):
        if count and (count >= most or total + row.size_bytes > most_bytes or row.made_at_ms < oldest_ms):
            gone += [each.id for each in rows[count:]]
            break
        total += row.size_bytes
    return gone, total


def _open(place: StorePlace) -> Database:
    try:
        if place.file is not None:
            create_private(place.file)
        database = Database(place)
        try:
            migrate(database)
        except UnhangError:
            database.close()
            raise
    except (OSError, StoreTrouble) as error:
        raise InvalidSettings(
            f"the store {place.shown} cannot be used: {_why(error)}", advice=_ADVICE[place.file is not None]
        ) from error
    return database


def _milliseconds(id: str) -> int:
    """Return the time in an id: a UUID of version 7 begins with it."""
    return int(id.replace("-", "")[:12], 16)


def _one(connection: Connection, id: str) -> RowMapping:
    wanted = select(diagnoses.c.body, diagnoses.c.expected).where(diagnoses.c.id == plain(id))
    row = connection.execute(wanted).mappings().one_or_none()
    if row is None:
        raise no_such_diagnosis(id)
    return row


def no_such_diagnosis(id: str) -> NotFound:
    """Return the error for an unknown id."""
    return NotFound(f"there is no diagnosis {quoted(id)}", advice="GET /v1/diagnoses lists them; old ones are deleted")


def _pack(value: Value) -> bytes:
    return zlib.compress(value.model_dump_json(by_alias=True).encode(), level=6)


def _unpack(blob: bytes, kind: type[T]) -> T:
    try:
        return kind.model_validate_json(_inflated(blob))
    except (zlib.error, ValidationError) as error:
        raise InvalidSettings(f"the store is damaged: a {kind.__name__} in it cannot be read") from error


def _unpack_look(blob: bytes) -> NodeSnapshot:
    try:
        return read_kept(_inflated(blob))
    except (zlib.error, NoAnswer) as error:
        raise InvalidSettings("the store is damaged: a look in it cannot be read") from error


def _inflated(blob: bytes) -> bytes:
    return zlib.decompressobj(_ZLIB_OR_GZIP).decompress(blob, _MOST_INFLATED)


def _why(error: Exception) -> str:
    cause = error.__cause__
    return str(error) if cause is None else first_line(cause)
