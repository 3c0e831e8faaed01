"""Incidents and their events in the store: each change and its event are one transaction.

1. One fingerprint has one incident that is not over; an index enforces it. Whoever finds the same again adds to it, or
   whatever else its job is found with. What its job died of does not take the place of what it was found hung with.
2. The same fingerprint soon after its incident was resolved opens that one again: a fault that flaps is one incident.
   What a person has called a false alarm is not opened again for a day.
3. Jobs that the same root holds are one incident: that of the first job, which the others' are part of. It is over when
   all of them are, and what a person calls a false alarm is one for all.
4. Every change appends an event. Changes wait for each other, so that events are committed in the order of their
   numbers: whoever has read up to one misses nothing by reading on from there.

All calls block, and raise StoreTrouble.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from collector.gather.judge_and_stamp import new_id
from collector.keep.database import Database
from collector.keep.tables import (
    events,
    host_key,
    incident_diagnoses,
    incident_hosts,
    incidents,
    job_key,
    plain,
)
from collector.keep.watched.bodies import json_of, ms_of, read_stored, time_of
from collector.keep.watched.incident_rows import (
    MOST_INCIDENTS,
    forget_oldest,
    found_incident,
    ids_seen_by,
    known_by_fingerprint,
    last_event,
    live_members,
    one_incident,
    open_as_named,
    with_member,
    with_root,
)
from collector.keep.watched.repeats import earlier_bodies, faulty_hosts, times_before
from shared.answer.incidents import (
    LIVE_STATES,
    HeldJob,
    Incident,
    IncidentChange,
    IncidentChangeKind,
    IncidentEvent,
    IncidentState,
)
from shared.errors import InvalidInput, NotFound
from shared.server.access import UNBOUND, Access

MOST_EVENTS = 20_000
"""As many as are kept; the oldest go first."""
_MOST_HISTORY = 100
_MOST_DIAGNOSES = 12
"""Of one incident: the first, and the newest."""
_OF_THE_FAULT = ("kind", "cause", "certainty", "headline", "action", "culprits", "hosts", "place", "roots")
"""What a later look may know better."""


class Incidents:
    """The incidents in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def report(self, found: Incident, diagnoses: Iterable[str]) -> Incident:
        """Take in what was found hung twice: a new incident, or more of a known one. Returns it as it is kept.

        Its state, times and history are made here, and its id, unless it names an incident that is open already.
        """
        with self._database.write() as connection:
            now_ms = self._begin(connection)
            named = open_as_named(connection, found)
            if named is not None and not named.is_live:
                return named
            known = named or known_by_fingerprint(connection, found, now_ms)
            if known is None:
                return self._open(connection, found, tuple(diagnoses), now_ms)
            if known.state is IncidentState.FALSE_ALARM:
                return known
            return self._add(connection, known, found, tuple(diagnoses), now_ms)

    def acknowledge(self, id: str, *, by: str = "", note: str = "") -> Incident:
        """Say that somebody works on it. Raises NotFound, and InvalidInput where it is over."""
        with self._database.write() as connection:
            now_ms = self._begin(connection)
            known = one_incident(connection, id)
            is_known = known.state is IncidentState.ACKNOWLEDGED
            if is_known and not _is_new(known, by, note):
                return known
            _require_live(known)
            since = known.acknowledged_at if is_known else time_of(now_ms)
            set_now = {"state": IncidentState.ACKNOWLEDGED, "acknowledged_at": since}
            return self._change(connection, known, set_now, _said(IncidentChangeKind.ACKNOWLEDGED, now_ms, by, note))

    def comment(self, id: str, *, by: str = "", note: str = "") -> Incident:
        """Add to its history what somebody says of it, over or not. Raises NotFound, InvalidInput without a note."""
        if not note:
            raise InvalidInput("the comment is empty", advice="write a note")
        with self._database.write() as connection:
            said = _said(IncidentChangeKind.COMMENTED, self._begin(connection), by, note)
            known = one_incident(connection, id)
            if any((each.kind, each.by, each.note) == (said.kind, by, note) for each in known.history[-1:]):
                return known  # a client that asks once more adds nothing
            return self._change(connection, known, {}, said)

    def false_alarm(self, id: str, *, by: str = "", note: str = "") -> Incident:
        """Say that nothing was wrong; also of one that is resolved. Raises NotFound."""
        with self._database.write() as connection:
            now_ms = self._begin(connection)
            known = one_incident(connection, id)
            if known.state is IncidentState.FALSE_ALARM:
                return known
            said = _said(IncidentChangeKind.FALSE_ALARM, now_ms, by, note)
            for member in live_members(connection, known):
                self._end(connection, member, IncidentState.FALSE_ALARM, said)
            return self._end(connection, known, IncidentState.FALSE_ALARM, said)

    def resolve(self, id: str, *, note: str) -> Incident:
        """Say why it is over, for its job. One that is over stays as it is. Raises NotFound."""
        with self._database.write() as connection:
            now_ms = self._begin(connection)
            known = one_incident(connection, id)
            if not known.is_live or known.released_at is not None:
                return known
            if live_members(connection, known):
                released = {"released_at": time_of(now_ms)}
                return self._change(connection, known, released, _said(IncidentChangeKind.RELEASED, now_ms, "", note))
            return self._end(
                connection, known, IncidentState.RESOLVED, _said(IncidentChangeKind.RESOLVED, now_ms, "", note)
            )

    def say_undelivered(self, connection: Connection, id: str, note: str) -> None:
        """Say that a receiver could not be told of it, in the transaction that gives up. One that is gone stays so."""
        now_ms = self._begin(connection)
        try:
            known = one_incident(connection, id)
        except NotFound:
            return
        self._change(connection, known, {}, _said(IncidentChangeKind.UNDELIVERED, now_ms, "", note))

    def held(self, ids: Iterable[str], *, seen_by: Access = UNBOUND) -> dict[str, HeldJob]:
        """Return by id what is to be said of those incidents that are kept and that the caller may know of."""
        wanted = select(incidents.c.body).where(incidents.c.id.in_(sorted(map(plain, ids))))
        if seen_by.is_bound:
            wanted = wanted.where(incidents.c.id.in_(ids_seen_by(seen_by)))
        with self._database.read() as connection:
            found = [read_stored(body, Incident) for body in connection.execute(wanted).scalars()]
        return {each.id: each.held_as() for each in found}

    def get(self, id: str) -> Incident:
        """Return one incident. Raises NotFound."""
        with self._database.read() as connection:
            return one_incident(connection, id)

    def list(
        self,
        *,
        states: Iterable[IncidentState] = (),
        job: str | None = None,
        host: str | None = None,
        limit: int = 50,
        before: str | None = None,
        seen_by: Access = UNBOUND,
    ) -> tuple[Incident, ...]:
        """Return the newest first: in one of `states` (none: in any), of one job, with a culprit on `host`."""
        wanted = select(incidents.c.body)
        if seen_by.is_bound:
            wanted = wanted.where(incidents.c.id.in_(ids_seen_by(seen_by)))
        if states := tuple(states):
            wanted = wanted.where(incidents.c.state.in_([state.value for state in states]))
        if job is not None:
            wanted = wanted.where(incidents.c.job_key == job_key(job))
        if host is not None:
            there = select(incident_hosts.c.incident).where(incident_hosts.c.host_key == host_key(host))
            wanted = wanted.where(incidents.c.id.in_(there))
        if before is not None:
            wanted = wanted.where(incidents.c.id < plain(before))
        with self._database.read() as connection:
            bodies = connection.execute(wanted.order_by(incidents.c.id.desc()).limit(limit)).scalars().all()
        return tuple(read_stored(body, Incident) for body in bodies)

    def seen(self, ids: Iterable[str], access: Access) -> frozenset[str]:
        """Return which of these incidents a caller may know of."""
        wanted = select(incidents.c.id).where(incidents.c.id.in_(sorted(map(plain, ids))))
        if access.is_bound:
            wanted = wanted.where(incidents.c.id.in_(ids_seen_by(access)))
        with self._database.read() as connection:
            return frozenset(connection.execute(wanted).scalars())

    def live(self, *, seen_by: Access = UNBOUND) -> tuple[Incident, ...]:
        """Return all that are not over."""
        return self.list(states=LIVE_STATES, limit=MOST_INCIDENTS, seen_by=seen_by)

    def faulty_hosts(self) -> tuple[str, ...]:
        """Return the nodes at fault again and again lately, for causes that hardware can have."""
        return faulty_hosts(self.list(states=(IncidentState.RESOLVED,), limit=MOST_INCIDENTS))

    def events(self, *, after: int, limit: int = 500) -> tuple[IncidentEvent, ...]:
        """Return the events after the one of that number, oldest first."""
        wanted = select(events.c.body).where(events.c.id > after).order_by(events.c.id).limit(limit)
        with self._database.read() as connection:
            bodies = connection.execute(wanted).scalars().all()
        return tuple(read_stored(body, IncidentEvent) for body in bodies)

    def last_event(self) -> int:
        """Return the number of the newest event, 0 where there is none."""
        with self._database.read() as connection:
            return last_event(connection)

    def _begin(self, connection: Connection) -> int:
        """Wait for other changes (step 4); return the database's time."""
        self._database.lock(connection, "incidents")
        return self._database.now(connection)

    def _open(self, connection: Connection, found: Incident, diagnoses: tuple[str, ...], now_ms: int) -> Incident:
        earlier = (read_stored(body, Incident) for body in earlier_bodies(connection, found))
        first = with_root(connection, found)
        opened = found.model_copy(
            update={
                "id": new_id(now_ms * 1_000_000),
                "state": IncidentState.OPENED,
                "opened_at": time_of(now_ms),
                "seen_at": time_of(now_ms),
                "before": times_before(found, earlier),
                "diagnoses": diagnoses,
                "times_seen": max(1, len(diagnoses)),
                "history": (),
                "part_of": None if first is None else first.id,
            }
        )
        connection.execute(insert(incidents).values(id=opened.id, job_key=job_key(opened.job), **_row(opened, now_ms)))
        self._at_hosts(connection, opened.id, opened.hosts)
        change = IncidentChange(
            at=time_of(now_ms), kind=IncidentChangeKind.OPENED, note=found.trigger, diagnosis=_newest(diagnoses)
        )
        told = self._change(connection, opened, {}, change)
        if first is not None:
            known, joined = with_member(first, opened, time_of(now_ms))
            self._change(connection, known, {}, joined)
        forget_oldest(connection)
        return told

    def _add(
        self, connection: Connection, known: Incident, found: Incident, diagnoses: tuple[str, ...], now_ms: int
    ) -> Incident:
        kind = IncidentChangeKind.SEEN_AGAIN if known.is_live else IncidentChangeKind.REOPENED
        new = tuple(id for id in diagnoses if id not in known.diagnoses)
        together = (*known.diagnoses, *new)
        if len(together) > _MOST_DIAGNOSES:
            together = (together[0], *together[1 - _MOST_DIAGNOSES :])
        set_now = {
            "state": known.state if known.is_live else IncidentState.OPENED,
            "resolved_at": None,
            "released_at": None,
            "part_of": known.part_of if known.is_live else None,
            "members": known.members if known.is_live else (),
            "seen_at": time_of(now_ms),
            "gpus": max(known.gpus, found.gpus),
            "times_seen": known.times_seen + len(new),
            "diagnoses": together,
        }
        if known.died or not found.died:
            names = _OF_THE_FAULT if known.is_live else (*_OF_THE_FAULT, "still_since", "times_out_at")
            set_now |= {name: getattr(found, name) for name in names}
            self._at_hosts(connection, known.id, found.hosts)
        note = found.headline if found.kind is not known.kind else ""
        change = IncidentChange(at=time_of(now_ms), kind=kind, note=note, diagnosis=_newest(diagnoses))
        return self._change(connection, known, set_now, change)

    def _end(self, connection: Connection, known: Incident, state: IncidentState, change: IncidentChange) -> Incident:
        """End an incident, and the one that it is part of, if all that was left of that was this."""
        over = {"state": state, "resolved_at": known.resolved_at or change.at, "action": None}
        ended = self._change(connection, known, over, change)
        first = None if known.part_of is None else found_incident(connection, known.part_of)
        if first is not None and first.is_live and first.released_at and not live_members(connection, first):
            note = f"the last of its {len(first.members) + 1} jobs is over: {change.note}"
            self._end(connection, first, IncidentState.RESOLVED, change.model_copy(update={"note": note}))
        return ended

    def _at_hosts(self, connection: Connection, id: str, hosts: Iterable[str]) -> None:
        """Note on which nodes an incident's culprits are, or have been."""
        there = select(incident_hosts.c.host_key).where(incident_hosts.c.incident == id)
        new = set(map(host_key, hosts)) - set(connection.execute(there).scalars())
        if new:
            connection.execute(insert(incident_hosts), [{"incident": id, "host_key": key} for key in sorted(new)])

    def _change(
        self, connection: Connection, known: Incident, set_now: dict[str, Any], change: IncidentChange
    ) -> Incident:
        """Write the incident as it is now, and the event."""
        history = (*known.history, change)
        if len(history) > _MOST_HISTORY:
            history = (history[0], *history[1 - _MOST_HISTORY :])
        now = known.model_copy(update={**set_now, "history": history})
        now_ms = ms_of(change.at)
        connection.execute(update(incidents).where(incidents.c.id == now.id).values(_row(now, now_ms)))
        connection.execute(delete(incident_diagnoses).where(incident_diagnoses.c.incident == now.id))
        if now.diagnoses:
            rows = [{"incident": now.id, "diagnosis": id} for id in dict.fromkeys(now.diagnoses)]
            connection.execute(insert(incident_diagnoses), rows)
        number = last_event(connection) + 1
        event = IncidentEvent(id=number, at=change.at, kind=change.kind, incident=now)
        row = {"id": number, "at_ms": now_ms, "kind": change.kind.value, "incident": now.id}
        connection.execute(insert(events).values(body=json_of(event), **row))
        connection.execute(delete(events).where(events.c.id <= number - MOST_EVENTS))
        return now


def _row(incident: Incident, now_ms: int) -> dict[str, object]:
    return {
        "fingerprint": incident.fingerprint.key,
        "state": incident.state.value,
        "live": int(incident.is_live),
        "changed_ms": now_ms,
        "body": json_of(incident),
    }


def _require_live(incident: Incident) -> None:
    if not incident.is_live:
        raise InvalidInput(
            f"the incident is over: {incident.state}", advice="only an open incident can be acknowledged"
        )


def _is_new(known: Incident, by: str, note: str) -> bool:
    """Has nobody acknowledged it with these words? A bot that asks once more adds nothing."""
    told = {(change.by, change.note) for change in known.history if change.kind is IncidentChangeKind.ACKNOWLEDGED}
    return bool(by or note) and (by, note) not in told


def _newest(diagnoses: tuple[str, ...]) -> str | None:
    return diagnoses[-1] if diagnoses else None


def _said(kind: IncidentChangeKind, now_ms: int, by: str, note: str) -> IncidentChange:
    return IncidentChange(at=time_of(now_ms), kind=kind, by=by, note=note)
