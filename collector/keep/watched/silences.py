"""Silences in the store, as Alertmanager shapes them: in their time, incidents that match are not told to anybody.

All calls block, and raise StoreTrouble.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from collector.gather.judge_and_stamp import new_id
from collector.keep.database import Database
from collector.keep.tables import plain, silences
from shared.answer.incidents import NewSilence, Silence, SilenceStatus
from shared.errors import InvalidInput, InvalidSettings, NotFound, quoted

MOST_SILENCES = 1_000
_KEPT_EXPIRED_MS = 30 * 86_400_000
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)


class Silences:
    """The silences in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, wanted: NewSilence) -> Silence:
        """Keep a new one, once, or a changed one under its id. Raises InvalidInput, and NotFound for an unknown id."""
        starts, ends = parse_time(wanted.startsAt), parse_time(wanted.endsAt)
        if ends <= starts:
            raise InvalidInput("the silence ends before it begins")
        with self._database.write() as connection:
            self._database.lock(connection, "silences")
            now_ms = self._database.now(connection)
            if _ms(ends) <= now_ms:
                raise InvalidInput("the silence is over already", advice="let endsAt be later than now")
            connection.execute(delete(silences).where(silences.c.ends_ms < now_ms - _KEPT_EXPIRED_MS))
            times = {"starts_ms": _ms(starts), "ends_ms": _ms(ends), "updated_ms": now_ms}
            row = {**times, "body": wanted.model_copy(update={"id": None}).model_dump_json()}
            id = wanted.id or self._same(connection, row)
            if id is None:
                if connection.execute(select(func.count()).select_from(silences)).scalar_one() >= MOST_SILENCES:
                    raise InvalidInput(f"{MOST_SILENCES} silences are kept already", advice="delete some")
                id = new_id(now_ms * 1_000_000)
                connection.execute(insert(silences).values(id=id, **row))
            else:
                changed = connection.execute(update(silences).where(silences.c.id == plain(id)).values(row))
                if changed.rowcount != 1:
                    raise no_such_silence(id)
        return _silence(id, wanted, starts_ms=_ms(starts), ends_ms=_ms(ends), updated_ms=now_ms, now_ms=now_ms)

    def _same(self, connection: Connection, row: Mapping[str, Any]) -> str | None:
        """Return the silence that says just this: a client that asks once more adds none."""
        same = and_(*(silences.c[name] == row[name] for name in ("starts_ms", "ends_ms", "body")))
        return connection.execute(select(silences.c.id).where(same).limit(1)).scalar_one_or_none()

    def expire(self, id: str) -> None:
        """End one now; one that is over stays as it is. Raises NotFound."""
        now_ms = self._database.now_ms
        with self._database.write() as connection:
            known = connection.execute(select(silences.c.id).where(silences.c.id == plain(id))).one_or_none()
            if known is None:
                raise no_such_silence(id)
            running = (silences.c.id == plain(id)) & (silences.c.ends_ms > now_ms)
            connection.execute(update(silences).where(running).values(ends_ms=now_ms, updated_ms=now_ms))

    def get(self, id: str) -> Silence:
        """Return one. Raises NotFound."""
        found = [silence for silence in self.list() if silence.id == id]
        if not found:
            raise no_such_silence(id)
        return found[0]

    def list(self) -> tuple[Silence, ...]:
        """Return all that are kept, the ones that end last first."""
        wanted = select(silences, self._database.now_ms.label("now_ms")).order_by(silences.c.ends_ms.desc())
        with self._database.read() as connection:
            rows = connection.execute(wanted.limit(MOST_SILENCES)).mappings().all()
        return tuple(
            _silence(
                row["id"],
                _body(row["body"]),
                starts_ms=row["starts_ms"],
                ends_ms=row["ends_ms"],
                updated_ms=row["updated_ms"],
                now_ms=row["now_ms"],
            )
            for row in rows
        )


def parse_time(text: str) -> datetime:
    """Return a time with its zone. Raises InvalidInput."""
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError("it names no time zone")
        time = time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{quoted(text)} is not a time: {error}", advice="write 2026-01-31T08:00:00Z") from error
    return min(time, _LATEST)


def _silence(id: str, body: NewSilence, *, starts_ms: int, ends_ms: int, updated_ms: int, now_ms: int) -> Silence:
    return Silence(
        id=id,
        matchers=body.matchers,
        createdBy=body.createdBy,
        comment=body.comment,
        startsAt=_shown(starts_ms),
        endsAt=_shown(ends_ms),
        updatedAt=_shown(updated_ms),
        status=SilenceStatus(state="expired" if ends_ms <= now_ms else "pending" if starts_ms > now_ms else "active"),
    )


def _body(text: str) -> NewSilence:
    try:
        return NewSilence.model_validate_json(text)
    except ValueError as error:
        raise InvalidSettings("the store is damaged: a silence in it cannot be read") from error


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _ms(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _shown(ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def no_such_silence(id: str) -> NotFound:
    """Return the error for an unknown id."""
    return NotFound(f"there is no silence {quoted(id)}", advice="GET /v1/silences lists them")
