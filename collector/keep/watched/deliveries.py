"""The outbox: which receiver is told what, in the store, so that a collector may be killed at any moment.

1. Events are numbered without gaps, and each receiver has a number up to which they were looked at. Messages are
   entered and the number is moved on in one transaction; an index allows one message per receiver and event.
2. A collector takes a message by a lease that outlasts every attempt, so no other one sends it meanwhile. Killed
   between sending and marking, it leaves a lease that ends, and the message is sent again, under the same id: only
   there can a receiver get it twice.
3. Messages about one incident reach a receiver in order, one at a time. Those about others do not wait for them.

All calls block, and raise StoreTrouble.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection, RowMapping, Select, and_, delete, exists, func, insert, or_, select, update
from sqlalchemy.sql import ColumnElement

from collector.gather.judge_and_stamp import new_id
from collector.keep.database import Database
from collector.keep.tables import deliveries, events, incidents, plain, receivers
from collector.keep.watched.bodies import read_stored, time_of
from collector.keep.watched.incident_rows import last_event
from collector.keep.watched.incidents import Incidents
from shared.answer.deliveries import Delivery, DeliveryState
from shared.answer.incidents import LIVE_STATES, Incident, IncidentChangeKind, IncidentEvent

OPENINGS = (IncidentChangeKind.OPENED, IncidentChangeKind.REOPENED)
"""What begins what a receiver knows of an incident; all else follows one of these."""

ATTEMPT_SECONDS = 20.0
"""Longest that one attempt to send may take, all of it."""

MOST_ENDED = 10_000
"""Messages that have ended and are kept; older ones than a month go in any case."""
_KEPT_MS = 30 * 86_400_000
_ABANDONED_MS = 7 * 86_400_000
"""A message that waits for so long has no receiver any more in any collector's file."""
_MOST_READ = 200
_OPEN = (DeliveryState.WAITING.value, DeliveryState.REPEATING.value)


class Claimed(NamedTuple):
    """A message that is ours to send now."""

    id: str
    receiver: str
    attempts: int
    age_seconds: float
    is_repeat: bool
    event: IncidentEvent
    opening: IncidentEvent
    """What began it: the same as `event`, or what that follows."""
    incident: Incident | None
    """As it is now; None where it is gone."""
    follows: str | None = None
    """What the receiver calls the message that began it; None where it names none, or this is the one."""

    @property
    def is_opening(self) -> bool:
        """Does it begin what the receiver knows of the incident?"""
        return self.event.kind in OPENINGS

    @property
    def is_live(self) -> bool:
        """Is the incident not over yet?"""
        return self.incident is not None and self.incident.is_live


class Backlog(NamedTuple):
    """What one receiver has not been told yet."""

    waiting: int
    failing: int


class Deliveries:
    """The outbox in one database, as one collector sees it."""

    def __init__(self, database: Database, incidents: Incidents, *, lease_seconds: float) -> None:
        self._database = database
        self._incidents = incidents
        self._hold_ms = int((lease_seconds + ATTEMPT_SECONDS) * 1000)
        self._owner = database.owner

    def enter(self, receiver: str, kinds: Iterable[IncidentChangeKind]) -> int:
        """Enter messages about what has happened since the last call (step 1). Returns how many events were read.

        A receiver that is new learns of incidents that are not over.
        """
        wanted = frozenset(kinds)
        with self._database.write() as connection:
            self._database.lock(connection, "deliveries")
            read_to, since = self._position(connection, receiver)
            found = select(events.c.id, events.c.kind, events.c.incident, events.c.body).where(events.c.id > read_to)
            rows = connection.execute(found.order_by(events.c.id).limit(_MOST_READ)).all()
            if not rows:
                return 0
            now_ms = self._database.now(connection)
            for row in rows:
                is_old = row.id <= since
                if row.kind in wanted and self._is_told(connection, receiver, row.incident, row.kind, is_old=is_old):
                    self._insert(connection, receiver, row._mapping, now_ms)
            moved = update(receivers).where(receivers.c.name == receiver).values(read_to=rows[-1].id)
            connection.execute(moved)
            self._forget(connection, now_ms)
        return len(rows)

    def claim(self, names: Iterable[str], *, most: int) -> tuple[Claimed, ...]:
        """Take messages to these receivers that are due (steps 2 and 3)."""
        due = self._due(tuple(names)).limit(most)
        with self._database.read() as connection:
            if connection.execute(due).first() is None:
                return ()
        with self._database.write() as connection:
            self._database.lock(connection, "deliveries")
            now_ms = self._database.now(connection)
            rows = connection.execute(due).mappings().all()
            held = {"owner": self._owner, "until_ms": now_ms + self._hold_ms}
            taken: dict[tuple[str, str], RowMapping] = {}
            for row in rows:
                taken.setdefault((row["receiver"], row["incident"]), row)
            ids = [row["id"] for row in taken.values()]
            connection.execute(update(deliveries).where(deliveries.c.id.in_(ids)).values(held))
            return tuple(_claimed(connection, row, now_ms) for row in taken.values())

    def sent(self, claimed: Claimed, *, again_seconds: float | None = None, reference: str = "") -> None:
        """The receiver has it, and calls it `reference`; with `again_seconds` it gets it again then, until another
        message follows.
        """
        with self._database.write() as connection:
            now_ms = self._database.now(connection)
            if again_seconds is not None:
                again = {"state": DeliveryState.REPEATING.value, "due_ms": now_ms + int(again_seconds * 1000)}
                self._mark(connection, claimed, attempts=0, trouble="", **again)
                return
            self._end(connection, claimed, DeliveryState.SENT, now_ms, "", reference=plain(reference) or None)
            earlier = and_(
                deliveries.c.receiver == claimed.receiver, deliveries.c.incident == claimed.event.incident.id
            )
            repeating = and_(earlier, deliveries.c.state == DeliveryState.REPEATING.value)
            over = {"state": DeliveryState.SENT.value, "ended_ms": now_ms}
            connection.execute(update(deliveries).where(repeating).values(over))

    def postpone(self, claimed: Claimed, seconds: float, why: str, *, failed: bool) -> None:
        """Leave it for later; `failed`: it was tried."""
        with self._database.write() as connection:
            due_ms = self._database.now(connection) + int(seconds * 1000)
            self._mark(connection, claimed, due_ms=due_ms, attempts=claimed.attempts + int(failed), trouble=why)

    def give_up(self, claimed: Claimed, why: str) -> None:
        """It cannot be delivered: the incident's history and an event say so, in one transaction."""
        with self._database.write() as connection:
            self._end(connection, claimed, DeliveryState.GIVEN_UP, self._database.now(connection), why)
            note = f"{claimed.receiver} was not notified ({claimed.event.kind.value}): {plain(why)}"
            self._incidents.say_undelivered(connection, claimed.event.incident.id, note)

    def drop(self, claimed: Claimed, why: str) -> None:
        """There is nothing to report any more: it ends, and so does what was to follow it."""
        with self._database.write() as connection:
            now_ms = self._database.now(connection)
            self._end(connection, claimed, DeliveryState.DROPPED, now_ms, why)
            later = and_(
                deliveries.c.receiver == claimed.receiver,
                deliveries.c.incident == claimed.event.incident.id,
                deliveries.c.state == DeliveryState.WAITING.value,
                deliveries.c.kind.not_in([kind.value for kind in OPENINGS]),
            )
            dropped = {"state": DeliveryState.DROPPED.value, "ended_ms": now_ms, "trouble": plain(why)}
            connection.execute(update(deliveries).where(later).values(dropped))

    def list(
        self,
        *,
        states: Iterable[DeliveryState] = (),
        receiver: str | None = None,
        incident: str | None = None,
        limit: int = 50,
    ) -> tuple[Delivery, ...]:
        """Return the newest first."""
        wanted = select(deliveries)
        if states := tuple(states):
            wanted = wanted.where(deliveries.c.state.in_([state.value for state in states]))
        if receiver is not None:
            wanted = wanted.where(deliveries.c.receiver == plain(receiver))
        if incident is not None:
            wanted = wanted.where(deliveries.c.incident == plain(incident))
        order = (deliveries.c.created_ms.desc(), deliveries.c.event.desc(), deliveries.c.receiver)
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(*order).limit(limit)).mappings().all()
        return tuple(map(_delivery, rows))

    def opening(self, receiver: str, incident: str) -> DeliveryState | None:
        """Return the same, as it is now."""
        with self._database.read() as connection:
            return self._state(connection, receiver, incident)

    def undelivered(self, ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return of incidents the receivers that could not be told of them."""
        lost = select(deliveries.c.incident, deliveries.c.receiver).where(
            deliveries.c.incident.in_(tuple(ids)), deliveries.c.state == DeliveryState.GIVEN_UP.value
        )
        found: dict[str, tuple[str, ...]] = {}
        with self._database.read() as connection:
            for incident, receiver in connection.execute(lost.distinct().order_by(deliveries.c.receiver)):
                found[incident] = (*found.get(incident, ()), receiver)
        return found

    def backlog(self) -> dict[str, Backlog]:
        """Return what receivers have not been told yet."""
        failing = func.count().filter(deliveries.c.attempts > 0)
        waiting = func.count().filter(deliveries.c.state == DeliveryState.WAITING.value)
        counted = select(deliveries.c.receiver, waiting, failing).where(deliveries.c.state.in_(_OPEN))
        with self._database.read() as connection:
            rows = connection.execute(counted.group_by(deliveries.c.receiver)).all()
        return {row[0]: Backlog(int(row[1]), int(row[2])) for row in rows}

    def _ours(self) -> ColumnElement[bool]:
        return deliveries.c.owner == self._owner

    def _due(self, names: tuple[str, ...]) -> Select[tuple[object, ...]]:
        other = deliveries.alias("other")
        before = and_(
            other.c.receiver == deliveries.c.receiver,
            other.c.incident == deliveries.c.incident,
            or_(
                and_(other.c.state == DeliveryState.WAITING.value, other.c.event < deliveries.c.event),
                other.c.until_ms >= self._database.now_ms,
            ),
        )
        due = and_(
            deliveries.c.receiver.in_(names),
            deliveries.c.state.in_(_OPEN),
            deliveries.c.due_ms <= self._database.now_ms,
            ~exists(select(other.c.id).where(before)),
        )
        return select(deliveries).where(due).order_by(deliveries.c.due_ms, deliveries.c.event)

    def _position(self, connection: Connection, receiver: str) -> tuple[int, int]:
        """Return up to which event a receiver was looked after, and which were there before it."""
        row = connection.execute(select(receivers).where(receivers.c.name == receiver)).one_or_none()
        if row is not None:
            return row.read_to, row.since
        since = last_event(connection)
        first = select(func.min(events.c.id)).join(incidents, incidents.c.id == events.c.incident)
        oldest = connection.execute(first.where(incidents.c.live == 1)).scalar_one()
        read_to = since if oldest is None else int(oldest) - 1
        connection.execute(insert(receivers).values(name=receiver, read_to=read_to, since=since))
        return read_to, since

    def _is_told(self, connection: Connection, receiver: str, incident: str, kind: str, *, is_old: bool) -> bool:
        """Is this receiver told: of what begins, and of what follows something that it was told of?"""
        if kind not in OPENINGS:
            return self._state(connection, receiver, incident) not in (None, DeliveryState.DROPPED)
        if not is_old:
            return True
        state = connection.execute(select(incidents.c.state).where(incidents.c.id == incident)).scalar_one_or_none()
        return state in LIVE_STATES

    def _state(self, connection: Connection, receiver: str, incident: str) -> DeliveryState | None:
        """Return how far the message is by which that receiver last learnt of an incident; None: there is none."""
        began = and_(
            deliveries.c.receiver == receiver,
            deliveries.c.incident == incident,
            deliveries.c.kind.in_([kind.value for kind in OPENINGS]),
        )
        newest = select(deliveries.c.state).where(began).order_by(deliveries.c.event.desc()).limit(1)
        state = connection.execute(newest).scalar_one_or_none()
        return None if state is None else DeliveryState(state)

    def _insert(self, connection: Connection, receiver: str, event: RowMapping, now_ms: int) -> None:
        known = and_(deliveries.c.receiver == receiver, deliveries.c.event == event["id"])
        if connection.execute(select(deliveries.c.id).where(known)).first() is not None:
            return
        row = {"receiver": receiver, "incident": event["incident"], "event": event["id"], "kind": event["kind"]}
        state = {"state": DeliveryState.WAITING.value, "attempts": 0, "until_ms": 0, "trouble": ""}
        times = {"created_ms": now_ms, "due_ms": now_ms}
        id = new_id(now_ms * 1_000_000)
        connection.execute(insert(deliveries).values(id=id, body=event["body"], **row, **state, **times))

    def _mark(self, connection: Connection, claimed: Claimed, *, trouble: str, **columns: object) -> None:
        ours = and_(deliveries.c.id == claimed.id, self._ours())
        free = {"owner": None, "until_ms": 0, "trouble": plain(trouble)}
        connection.execute(update(deliveries).where(ours).values(**free, **columns))

    def _end(
        self, connection: Connection, claimed: Claimed, state: DeliveryState, now_ms: int, why: str, **columns: object
    ) -> None:
        self._mark(connection, claimed, trouble=why, state=state.value, ended_ms=now_ms, **columns)

    def _forget(self, connection: Connection, now_ms: int) -> None:
        """Delete the oldest that have ended, and end those whose receiver is in no collector's file any more."""
        ended = deliveries.c.ended_ms.is_not(None)
        live = select(incidents.c.id).where(incidents.c.live == 1)
        kept = select(deliveries.c.id).where(ended).order_by(deliveries.c.created_ms.desc()).offset(MOST_ENDED).limit(1)
        if (oldest := connection.execute(kept).scalar_one_or_none()) is not None:
            connection.execute(delete(deliveries).where(ended, deliveries.c.id <= oldest))
        old = and_(ended, deliveries.c.created_ms < now_ms - _KEPT_MS, deliveries.c.incident.not_in(live))
        connection.execute(delete(deliveries).where(old))
        lost = and_(~ended, deliveries.c.due_ms < now_ms - _ABANDONED_MS)
        gone = {"state": DeliveryState.DROPPED.value, "ended_ms": now_ms, "trouble": "no collector has this receiver"}
        connection.execute(update(deliveries).where(lost).values(gone))


def _claimed(connection: Connection, row: RowMapping, now_ms: int) -> Claimed:
    event = read_stored(row["body"], IncidentEvent)
    opening, follows = event, None
    if event.kind not in OPENINGS:
        began = select(deliveries.c.body, deliveries.c.reference).where(
            deliveries.c.receiver == row["receiver"],
            deliveries.c.incident == row["incident"],
            deliveries.c.kind.in_([kind.value for kind in OPENINGS]),
            deliveries.c.event < row["event"],
        )
        first = connection.execute(began.order_by(deliveries.c.event.desc()).limit(1)).one_or_none()
        if first is not None:
            opening, follows = read_stored(first.body, IncidentEvent), first.reference
    current = connection.execute(select(incidents.c.body).where(incidents.c.id == row["incident"])).scalar_one_or_none()
    return Claimed(
        id=row["id"],
        receiver=row["receiver"],
        attempts=row["attempts"],
        age_seconds=(now_ms - row["created_ms"]) / 1000,
        is_repeat=row["state"] == DeliveryState.REPEATING.value,
        event=event,
        opening=opening,
        incident=None if current is None else read_stored(current, Incident),
        follows=follows,
    )


def _delivery(row: RowMapping) -> Delivery:
    is_open = row["state"] in _OPEN
    return Delivery(
        id=row["id"],
        receiver=row["receiver"],
        incident=row["incident"],
        kind=IncidentChangeKind(row["kind"]),
        state=DeliveryState(row["state"]),
        attempts=row["attempts"],
        created_at=time_of(row["created_ms"]),
        due_at=time_of(row["due_ms"]) if is_open else None,
        ended_at=None if row["ended_ms"] is None else time_of(row["ended_ms"]),
        trouble=row["trouble"],
    )
