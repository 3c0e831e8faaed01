"""What was wrong before: kept diagnoses and incidents by job, node, kind and cause, newest first."""

from typing import NamedTuple

from collector.keep.store import Listed, Store
from shared.answer.diagnosis import Contract, Culprit, Link
from shared.answer.incidents import Incident, IncidentState
from shared.answer.words import Cause, Certainty, Kind
from shared.rank_sets import FoldedRanks
from shared.server.access import UNBOUND, Access
from shared.value import Value

MOST_READ = 1000
"""Diagnoses that one question reads."""
_AT_ONCE = 100


class PastWanted(NamedTuple):
    """What a diagnosis must have: all that is given, in one finding."""

    job: str | None = None
    node: str | None = None
    kind: Kind | None = None
    cause: Cause | None = None

    @property
    def needs_findings(self) -> bool:
        """Is more asked for than the list has?"""
        return (self.node, self.kind, self.cause) != (None, None, None)


class PastFinding(Contract):
    """What a list shows of one finding."""

    kind: Kind
    cause: Cause = Cause.UNKNOWN
    certainty: Certainty
    culprits: tuple[Culprit, ...] = ()
    victims: FoldedRanks = ""
    links: tuple[Link, ...] = ()

    def fits(self, wanted: PastWanted) -> bool:
        """Is it what was asked for? Of a node it is where a culprit or the end of a link is there."""
        ends = [end for link in self.links for end in (link.from_, link.to)]
        hosts = {each.host for each in self.culprits} | {end.host for end in ends}
        return (
            (wanted.kind is None or wanted.kind is self.kind)
            and (wanted.cause is None or wanted.cause is self.cause)
            and (wanted.node is None or wanted.node in hosts)
        )


class PastFindings(Value):
    """What is read of a diagnosis to find it again."""

    findings: tuple[PastFinding, ...] = ()


class HistoryRow(NamedTuple):
    """One line of the history."""

    listed: Listed
    findings: tuple[PastFinding, ...]


class PastPage(NamedTuple):
    """One page of the history. `next`: pass it as `before` for older ones; None where there are none."""

    diagnoses: tuple[HistoryRow, ...]
    next: str | None


def search(
    store: Store, wanted: PastWanted, *, limit: int = 50, before: str | None = None, seen_by: Access = UNBOUND
) -> PastPage:
    """Return the newest diagnoses that fit, at most `limit`. Raises StoreTrouble.

    Where few fit, it ends after a thousand that do not; `next` goes on from there.
    """
    found: list[HistoryRow] = []
    for _ in range(MOST_READ // _AT_ONCE):
        rows = store.list(job=wanted.job, limit=_AT_ONCE, before=before, seen_by=seen_by)
        told = store.excerpts([row.id for row in rows], PastFindings)
        for row in rows:
            findings = told[row.id].findings if row.id in told else ()
            if not wanted.needs_findings or any(finding.fits(wanted) for finding in findings):
                found.append(HistoryRow(row, findings))
            before = row.id
            if len(found) == limit:
                return PastPage(tuple(found), before)
        if len(rows) < _AT_ONCE:
            return PastPage(tuple(found), None)
    return PastPage(tuple(found), before)


class IncidentsWanted(NamedTuple):
    """What an incident must have: all that is given. No state: any."""

    job: str | None = None
    node: str | None = None
    kind: Kind | None = None
    cause: Cause | None = None
    states: tuple[IncidentState, ...] = ()

    def fits(self, incident: Incident, *, alone: bool) -> bool:
        """Is it of the kind and cause that are asked for? The database chooses by the rest.

        Where all incidents are asked for, those that are part of another are told with that, unless `alone`.
        """
        if incident.part_of is not None and not alone and (self.job, self.node) == (None, None):
            return False
        return self.kind in (None, incident.kind) and self.cause in (None, incident.cause)


class FoundIncidents(NamedTuple):
    """One page of incidents. `next`: pass it as `before` for older ones; None where there are none."""

    incidents: tuple[Incident, ...]
    next: str | None


def search_incidents(
    store: Store, wanted: IncidentsWanted, *, limit: int = 50, before: str | None = None, seen_by: Access = UNBOUND
) -> FoundIncidents:
    """Return the newest incidents that fit, at most `limit`. Raises StoreTrouble."""
    found: list[Incident] = []
    while len(found) <= limit:
        rows = store.incidents.list(
            states=wanted.states,
            job=wanted.job,
            host=wanted.node,
            limit=_AT_ONCE,
            before=before,
            seen_by=seen_by,
        )
        found += (row for row in rows if wanted.fits(row, alone=seen_by.is_bound))
        if len(rows) < _AT_ONCE:
            break
        before = rows[-1].id
    return FoundIncidents(tuple(found[:limit]), found[limit - 1].id if len(found) > limit else None)
