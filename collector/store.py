"""Diagnoses and the snapshots that they rest on, kept in a database within bounds.

SQLite by default, in write-ahead mode: what `save` has returned from survives a restart and a SIGKILL. SQLAlchemy
Core and plain types keep other databases possible. All calls block; a service makes them in a thread.
"""

import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError
from sqlalchemy import Connection, Engine, create_engine, delete, event, func, insert, select
from sqlalchemy.engine import RowMapping
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from collector.diagnose.expected import Expected
from collector.store_tables import SCHEMA, diagnoses, marks, metadata, snapshots
from shared.diagnosis import Diagnosis, Verdict
from shared.errors import InvalidSettings, NotFound, quoted
from shared.snapshot import NodeSnapshot
from shared.value import Value

T = TypeVar("T", bound=Value)

_MOST_INFLATED = 1024 * 1024 * 1024
"""Of one stored blob; the file may have been tampered with."""


class Retention(Value):
    """How much is kept. Whichever bound is reached first, the oldest go; the newest always stays."""

    most_diagnoses: int = Field(default=1000, ge=1)
    most_days: float = Field(default=30.0, gt=0.0)
    most_bytes: int = Field(default=2 * 1024**3, ge=1)


class Listed(Value):
    """One line of the list of diagnoses."""

    id: str = Field(description="For `GET /v1/diagnoses/{id}`; ids sort by time.")
    job: str | None = None
    made_at: str = Field(description="RFC 3339, UTC.")
    verdict: Verdict
    headline: str


class Kept(Value):
    """A diagnosis with everything it rests on."""

    diagnosis: Diagnosis
    expected: Expected
    snapshots: tuple[NodeSnapshot, ...]


class Store:
    """The diagnoses in one database."""

    def __init__(self, path: Path | None, *, retention: Retention | None = None) -> None:
        """Open or create the database; None keeps it in memory. Raises InvalidSettings where it cannot be used."""
        self._retention = retention or Retention()
        self._writing = threading.Lock()
        self._where = "memory" if path is None else str(path)
        try:
            if path is not None:
                _create_private(path)
            self._engine = _engine(path)
            self._prepare()
        except (OSError, SQLAlchemyError) as error:
            raise InvalidSettings(
                f"the store {self._where} cannot be used: {_first_line(error)}",
                advice="name a file in a directory that this service may write, or move a damaged file away",
            ) from error

    def close(self) -> None:
        """Close the database; the write-ahead log is folded into the file."""
        self._engine.dispose()

    def save(self, diagnosis: Diagnosis, expected: Expected, looks: Sequence[NodeSnapshot]) -> None:
        """Keep a diagnosis for good, then let the oldest go where a bound is reached."""
        verdict_blob, expected_blob = _pack(diagnosis), _pack(expected)
        blobs = [_pack(look) for look in looks]
        row = {
            "id": diagnosis.id,
            "job": diagnosis.job,
            "made_at": diagnosis.made_at,
            "made_at_ms": _milliseconds(diagnosis.id),
            "verdict": diagnosis.verdict.value,
            "headline": diagnosis.headline,
            "body": verdict_blob,
            "expected": expected_blob,
            "size_bytes": len(verdict_blob) + len(expected_blob) + sum(map(len, blobs)),
        }
        with self._write() as connection:
            connection.execute(insert(diagnoses), [row])
            if blobs:
                connection.execute(
                    insert(snapshots),
                    [
                        {"diagnosis": diagnosis.id, "position": position, "host": look.host, "body": blob}
                        for position, (look, blob) in enumerate(zip(looks, blobs, strict=True))
                    ],
                )
            forgotten = self._forget(connection, now_ms=_milliseconds(diagnosis.id))
        if forgotten:
            self._give_back_space()

    def list(self, *, job: str | None = None, limit: int = 50, before: str | None = None) -> tuple[Listed, ...]:
        """Return the newest diagnoses first, at most `limit`, of one `job` where given, older than the id `before`."""
        wanted = select(diagnoses.c.id, diagnoses.c.job, diagnoses.c.made_at, diagnoses.c.verdict, diagnoses.c.headline)
        if job is not None:
            wanted = wanted.where(diagnoses.c.job == job)
        if before is not None:
            wanted = wanted.where(diagnoses.c.id < before)
        with self._engine.connect() as connection:
            rows = connection.execute(wanted.order_by(diagnoses.c.id.desc()).limit(limit)).all()
        return tuple(Listed.model_validate(row._asdict()) for row in rows)

    def diagnosis(self, id: str) -> Diagnosis:
        """Return one diagnosis. Raises NotFound."""
        with self._engine.connect() as connection:
            row = _one(connection, id)
        return _unpack(row["body"], Diagnosis)

    def kept(self, id: str) -> Kept:
        """Return one diagnosis with its snapshots, in the order in which they were saved. Raises NotFound."""
        wanted = select(snapshots.c.body).where(snapshots.c.diagnosis == id).order_by(snapshots.c.position)
        with self._engine.connect() as connection:
            row = _one(connection, id)
            looks = connection.execute(wanted).scalars().all()
        return Kept(
            diagnosis=_unpack(row["body"], Diagnosis),
            expected=_unpack(row["expected"], Expected),
            snapshots=tuple(_unpack(look, NodeSnapshot) for look in looks),
        )

    def size(self) -> tuple[int, int]:
        """Return how many diagnoses are kept, and their size in bytes."""
        with self._engine.connect() as connection:
            count, size = connection.execute(
                select(func.count(), func.coalesce(func.sum(diagnoses.c.size_bytes), 0)).select_from(diagnoses)
            ).one()
        return int(count), int(size)

    def _prepare(self) -> None:
        metadata.create_all(self._engine)
        with self._write() as connection:
            known = connection.execute(select(marks.c.value).where(marks.c.name == "schema")).scalar_one_or_none()
            if known is None:
                connection.execute(insert(marks), [{"name": "schema", "value": SCHEMA}])
            elif known != SCHEMA:
                raise InvalidSettings(
                    f"the store {self._where} has schema {known}, this version needs {SCHEMA}",
                    advice="use the version of unhang that wrote it, or name another file",
                )

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with self._writing, self._engine.begin() as connection:
            yield connection

    def _forget(self, connection: Connection, *, now_ms: int) -> int:
        """Delete what the retention no longer covers, oldest first; the newest stays, however large it is."""
        keep = self._retention
        oldest_ms = now_ms - int(keep.most_days * 86_400_000)
        rows = connection.execute(
            select(diagnoses.c.id, diagnoses.c.made_at_ms, diagnoses.c.size_bytes).order_by(diagnoses.c.id.desc())
        )
        total, gone = 0, []
        for count, row in enumerate(rows):
            total += row.size_bytes
            if count > 0 and (count >= keep.most_diagnoses or total > keep.most_bytes or row.made_at_ms < oldest_ms):
                gone.append(row.id)
        for first in range(0, len(gone), 500):
            some = gone[first : first + 500]
            connection.execute(delete(snapshots).where(snapshots.c.diagnosis.in_(some)))
            connection.execute(delete(diagnoses).where(diagnoses.c.id.in_(some)))
        return len(gone)

    def _give_back_space(self) -> None:
        """Let the file shrink. Only `executescript` steps through this pragma, which frees a page per step."""
        if self._engine.dialect.name == "sqlite":
            with self._writing, closing(self._engine.raw_connection()) as connection:
                connection.cursor().executescript("PRAGMA incremental_vacuum")


def _engine(path: Path | None) -> Engine:
    if path is None:
        return create_engine("sqlite://", connect_args={"check_same_thread": False}, poolclass=StaticPool)
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 30})
    event.listen(engine, "connect", _tune_sqlite)
    return engine


def _tune_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _create_private(path: Path) -> None:
    """Create the file and its directory for this user alone: stacks and logs are nobody else's business."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _milliseconds(id: str) -> int:
    """Return the time in an id: a UUID of version 7 begins with it."""
    return int(id.replace("-", "")[:12], 16)


def _one(connection: Connection, id: str) -> RowMapping:
    wanted = select(diagnoses.c.body, diagnoses.c.expected).where(diagnoses.c.id == id)
    row = connection.execute(wanted).mappings().one_or_none()
    if row is None:
        raise NotFound(
            f"there is no diagnosis {quoted(id)}", advice="GET /v1/diagnoses lists them; old ones are let go"
        )
    return row


def _pack(value: Value) -> bytes:
    return zlib.compress(value.model_dump_json(by_alias=True).encode(), level=6)


def _unpack(blob: bytes, kind: type[T]) -> T:
    try:
        inflate = zlib.decompressobj()
        return kind.model_validate_json(inflate.decompress(blob, _MOST_INFLATED))
    except (zlib.error, ValidationError) as error:
        raise InvalidSettings(f"the store is damaged: a {kind.__name__} in it cannot be read") from error


def _first_line(error: BaseException) -> str:
    cause = getattr(error, "orig", None) or error
    return (str(cause).splitlines() or [type(cause).__name__])[0][:200]
