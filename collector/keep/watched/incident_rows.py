"""Incidents as the store has them: found by id, by who may see them, by their fault and by what holds their jobs."""

from sqlalchemy import Connection, Select, delete, func, select

from collector.keep.seen import diagnoses_seen_by
from collector.keep.tables import diagnoses, events, incident_diagnoses, incident_hosts, incidents, plain
from collector.keep.watched.bodies import ms_of, read_stored
from shared.answer.incidents import Incident, IncidentChange, IncidentChangeKind, IncidentState
from shared.errors import NotFound, quoted
from shared.plural import counted
from shared.server.access import Access

REOPENED_SECONDS = 600.0
FALSE_ALARM_SECONDS = 86_400.0
MOST_INCIDENTS = 1_000
"""As many as are kept; the oldest go first, and none that is not over."""


def ids_seen_by(access: Access) -> Select[tuple[str]]:
    """Select the incidents that rest on a kept diagnosis which the caller may see: all of one job's are alike."""
    same = incident_diagnoses.c.diagnosis == diagnoses.c.id
    return select(incident_diagnoses.c.incident).join(diagnoses, same).where(*diagnoses_seen_by(access))


def found_incident(connection: Connection, id: str) -> Incident | None:
    """Return the incident of that id; None: none is kept."""
    body = connection.scalar(select(incidents.c.body).where(incidents.c.id == plain(id)))
    return None if body is None else read_stored(body, Incident)


def one_incident(connection: Connection, id: str) -> Incident:
    """Return the incident of that id. Raises NotFound."""
    found = found_incident(connection, id)
    if found is None:
        raise no_such_incident(id)
    return found


def no_such_incident(id: str) -> NotFound:
    """Return the error for an unknown id."""
    return NotFound(f"there is no incident {quoted(id)}", advice="GET /v1/incidents lists them; old ones are deleted")


def last_event(connection: Connection) -> int:
    """Return the number of the newest event, 0 where there is none."""
    return int(connection.execute(select(func.coalesce(func.max(events.c.id), 0))).scalar_one())


def open_as_named(connection: Connection, found: Incident) -> Incident | None:
    """Return the incident that it names, which another replica may have ended meanwhile, with its job."""
    named = found_incident(connection, found.id)
    is_told = named is not None and (named.is_live or (found.job_ended and named.state is IncidentState.RESOLVED))
    return named if is_told else None


def known_by_fingerprint(connection: Connection, found: Incident, now_ms: int) -> Incident | None:
    """Return the incident that `found` is more of (steps 1 and 2 of `incidents.py`)."""
    same = select(incidents.c.body).where(incidents.c.fingerprint == found.fingerprint.key)
    body = connection.scalar(same.order_by(incidents.c.live.desc(), incidents.c.id.desc()).limit(1))
    if body is None:
        return None
    known = read_stored(body, Incident)
    over_ms = now_ms if known.resolved_at is None else ms_of(known.resolved_at)
    age_seconds = (now_ms - over_ms) / 1000
    if known.state is IncidentState.FALSE_ALARM:
        return known if age_seconds < FALSE_ALARM_SECONDS else None
    return known if known.is_live or age_seconds < REOPENED_SECONDS else None


def with_root(connection: Connection, found: Incident) -> Incident | None:
    """Return the first open incident of another job that the same holds (step 3 of `incidents.py`)."""
    if not found.roots:
        return None
    bodies = connection.execute(select(incidents.c.body).where(incidents.c.live == 1).order_by(incidents.c.id))
    live = (read_stored(body, Incident) for body in bodies.scalars())
    same = (each for each in live if not {*found.roots}.isdisjoint(_roots(each, found)) and _job(each) != _job(found))
    return next((each for each in same if each.part_of is None and len(each.members) < MOST_INCIDENTS), None)


def _roots(first: Incident, found: Incident) -> tuple[str, ...]:
    """What holds it and, for a job of the same user that waits for its own, that one."""
    own = (f"job {first.fingerprint.job}",) if first.user == found.user else ()
    return (*first.roots, *own)


def with_member(first: Incident, member: Incident, at: str) -> tuple[Incident, IncidentChange]:
    """Return the first incident with another that is part of it, and the line of its history that counts them all."""
    members = (*first.members, member.id)
    note = f"{counted(len(members), 'other job')} held by the same: {member.roots[0]}"
    earlier = first.history[:-1] if first.history[-1].kind is IncidentChangeKind.JOINED else first.history
    change = IncidentChange(at=at, kind=IncidentChangeKind.JOINED, note=note)
    return first.model_copy(update={"members": members, "history": earlier}), change


def live_members(connection: Connection, first: Incident) -> tuple[Incident, ...]:
    """Return those that are part of it and not over."""
    of_these = select(incidents.c.body).where(incidents.c.id.in_(first.members), incidents.c.live == 1)
    return tuple(read_stored(body, Incident) for body in connection.execute(of_these).scalars())


def forget_oldest(connection: Connection) -> None:
    """Delete the oldest that are over."""
    over = select(incidents.c.id).where(incidents.c.live == 0).order_by(incidents.c.id.desc()).offset(MOST_INCIDENTS)
    gone = connection.execute(over.limit(500)).scalars().all()
    if gone:
        for table in (incident_hosts, incident_diagnoses):
            connection.execute(delete(table).where(table.c.incident.in_(gone)))
        connection.execute(delete(incidents).where(incidents.c.id.in_(gone)))


def _job(incident: Incident) -> tuple[str, str | None]:
    return incident.fingerprint.job, incident.user
