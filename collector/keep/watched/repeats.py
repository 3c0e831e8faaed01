"""What came before: nodes at fault again and again, and how often the same fault was an incident lately."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import Connection, select

from collector.keep.tables import host_key, incident_hosts, incidents, job_key
from shared.answer.incidents import Incident
from shared.answer.words import HARDWARE_CAUSES

FAULTY_TIMES = 2
"""After so many incidents a node may be at fault for what hardware can cause; one may be anybody's."""
_MOST_COMPARED = 200
_RECENT_SECONDS = 30 * 86_400.0


def faulty_hosts(over: Iterable[Incident]) -> tuple[str, ...]:
    """Return the nodes whose ranks were culprits so often lately, for causes that hardware can have."""
    of_hardware = (each for each in over if each.cause in HARDWARE_CAUSES and _is_recent(each))
    counts = Counter(host for each in of_hardware for host in each.hosts)
    return tuple(sorted(host for host, count in counts.items() if count >= FAULTY_TIMES))


def earlier_bodies(connection: Connection, found: Incident) -> Iterable[str]:
    """Return earlier incidents, as stored: on its nodes, if these may be at fault, else of its job's name."""
    there = select(incident_hosts.c.incident).where(incident_hosts.c.host_key.in_(map(host_key, found.hosts)))
    same = incidents.c.id.in_(there) if found.may_be_its_nodes else incidents.c.job_key == job_key(found.job)
    return connection.execute(select(incidents.c.body).where(same).limit(_MOST_COMPARED)).scalars()


def times_before(found: Incident, earlier: Iterable[Incident]) -> int:
    """Return how many of the earlier ones were of its kind and at its line, or at none like it."""
    return sum((each.kind, each.place) == (found.kind, found.place) for each in earlier if _is_recent(each))


def _is_recent(incident: Incident) -> bool:
    age = datetime.now(UTC) - datetime.fromisoformat(incident.opened_at)
    return age.total_seconds() < _RECENT_SECONDS
