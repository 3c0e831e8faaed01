"""Results of preflights in the store, kept within bounds: whoever runs one may send what it found.

All calls block, and raise StoreTrouble.
"""

import zlib
from collections.abc import Iterator
from hashlib import sha256

from pydantic import ValidationError
from sqlalchemy import Connection, delete, func, insert, select

from collector.gather.judge_and_stamp import id_after, rfc3339
from collector.keep.database import Database
from collector.keep.tables import plain, preflights
from shared.answer.preflight import KeptPreflight, PreflightResult
from shared.errors import InvalidSettings, NotFound, quoted

MOST_PREFLIGHTS = 500
MOST_BYTES = 64 * 1024 * 1024
"""Deflated. Whichever bound is reached first, the oldest go; the newest always stays."""

_MOST_INFLATED = 8 * 1024 * 1024
"""Of one result; the database may have been tampered with."""

_AT_ONCE = 50


class Preflights:
    """The preflights in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, found: PreflightResult) -> KeptPreflight:
        """Keep a result, and let the oldest go where there are too many. One that is kept already is returned."""
        with self._database.write() as connection:
            self._database.lock(connection, "preflights")
            result = _digest(found)
            kept_before = select(preflights.c.body).where(preflights.c.result == result)
            if (before := connection.execute(kept_before).scalar_one_or_none()) is not None:
                return _read(before)
            now_ms = self._database.now(connection)
            newest = connection.execute(select(func.max(preflights.c.id))).scalar_one()
            id = id_after(newest, now_ms * 1_000_000)
            kept = KeptPreflight(id=id, kept_at=rfc3339(now_ms * 1_000_000), **dict(found))
            body = zlib.compress(kept.model_dump_json().encode())
            row = {"id": id, "kept_ms": now_ms, "size_bytes": len(body), "body": body, "result": result}
            connection.execute(insert(preflights).values(row))
            _forget(connection)
        return kept

    def get(self, id: str) -> KeptPreflight:
        """Return one. Raises NotFound."""
        with self._database.read() as connection:
            wanted = select(preflights.c.body).where(preflights.c.id == plain(id))
            body = connection.execute(wanted).scalar_one_or_none()
        if body is None:
            raise NotFound(
                f"there is no preflight {quoted(id)}", advice="GET /v1/preflights lists them; old ones are deleted"
            )
        return _read(body)

    def list(self, *, host: str | None = None, limit: int = 50, before: str | None = None) -> tuple[KeptPreflight, ...]:
        """Return the newest first, at most `limit`; with a `host`, those in which it took part."""
        found: list[KeptPreflight] = []
        for kept in self._newest(before):
            if host is None or kept.state_of(host) is not None:
                found.append(kept)
            if len(found) == limit:
                break
        return tuple(found)

    def _newest(self, before: str | None) -> Iterator[KeptPreflight]:
        while True:
            wanted = select(preflights.c.id, preflights.c.body).order_by(preflights.c.id.desc()).limit(_AT_ONCE)
            if before is not None:
                wanted = wanted.where(preflights.c.id < plain(before))
            with self._database.read() as connection:
                rows = connection.execute(wanted).all()
            for row in rows:
                before = row.id
                yield _read(row.body)
            if len(rows) < _AT_ONCE:
                return


def _digest(found: PreflightResult) -> str:
    """Return a key for this result: by its id, which may be any text; by all of it, where it has none."""
    text = found.result_id or found.model_dump_json()
    return sha256(text.encode()).hexdigest()


def _forget(connection: Connection) -> None:
    sizes = connection.execute(select(preflights.c.id, preflights.c.size_bytes).order_by(preflights.c.id.desc())).all()
    total = 0
    for count, row in enumerate(sizes):
        total += row.size_bytes
        if count and (count >= MOST_PREFLIGHTS or total > MOST_BYTES):
            connection.execute(delete(preflights).where(preflights.c.id <= row.id))
            return


def _read(body: bytes) -> KeptPreflight:
    try:
        inflating = zlib.decompressobj()
        text = inflating.decompress(body, _MOST_INFLATED)
        return KeptPreflight.model_validate_json(text)
    except (zlib.error, ValidationError) as error:
        raise InvalidSettings("the store is damaged: a preflight in it cannot be read") from error
