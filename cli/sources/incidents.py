"""A collector's incidents, silences and events, asked over HTTP."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from pydantic import Field, ValidationError

from cli.sources.remote import Remote, segment
from shared.answer.deliveries import Delivery
from shared.answer.incidents import LIVE_STATES, Incident, IncidentChangeKind, IncidentEvent, Silence
from shared.answer.preflight import KeptPreflight, NodeState, PreflightReport
from shared.answer.words import HARDWARE_CAUSES, Verdict
from shared.errors import NotFound, UnhangError, Unreachable
from shared.value import Value

REPEATED = 4
"""So often a node's ranks must have been culprits until that is said: the same jobs run on the same nodes."""
_PAGE = 500
_MOST_PREFLIGHTS = 100
_NEWEST = 5
"""Preflights that say what a node is like now."""
_MOST_PAGES = 20
_LOST_SECONDS = 120.0
_PAUSE_SECONDS = 2.0
_FOLLOWED_SECONDS = 300


class IncidentPage(Value):
    """As `GET /v1/incidents` gives it."""

    incidents: tuple[Incident, ...]
    next: str | None = None


class SilencePage(Value):
    """As `GET /v1/silences` gives it."""

    silences: tuple[Silence, ...]


class DeliveryPage(Value):
    """As `GET /v1/deliveries` gives it."""

    deliveries: tuple[Delivery, ...]


class PastDiagnosis(Value):
    """One line of the list of diagnoses."""

    id: str
    job: str | None = None
    made_at: str
    verdict: Verdict
    headline: str


class RepeatedNode(Value):
    """A node whose ranks were culprits again and again."""

    host: str
    incidents: int
    kinds: tuple[str, ...] = Field(default=(), description="What they were found with, most frequent first.")
    causes: tuple[str, ...] = Field(default=(), description="Why they were there, most frequent first.")
    of_hardware: int = Field(default=0, description="In so many incidents the cause is one that hardware can have.")


class PreflightPage(Value):
    """As `GET /v1/preflights` gives it."""

    preflights: tuple[KeptPreflight, ...]
    next: str | None = None


class TestedNode(Value):
    """A node that preflights found bad."""

    host: str
    bad: int = Field(description="In so many of the newest preflights in which it took part.")
    preflights: int = Field(description="So many these were, at most five.")
    newest: str = Field(description="What the newest of them says of it.")


class History(Value):
    """What was found in some days, newest first."""

    days: float
    repeated: tuple[RepeatedNode, ...] = ()
    tested: tuple[TestedNode, ...] = ()
    preflights: tuple[KeptPreflight, ...] = ()
    incidents: tuple[Incident, ...] = ()
    diagnoses: tuple[PastDiagnosis, ...] = ()


class _DiagnosisPage(Value):
    diagnoses: tuple[PastDiagnosis, ...]
    next: str | None = None


class _Kept(Value):
    silenceID: str


def list_incidents(
    remote: Remote,
    *,
    states: Sequence[str] = (),
    job: str | None = None,
    host: str | None = None,
    kind: str | None = None,
    limit: int = 50,
    before: str | None = None,
) -> IncidentPage:
    """Return one page of incidents."""
    given = {"job": job, "host": host, "kind": kind, "limit": str(limit), "before": before}
    parameters = [(name, value) for name, value in given.items() if value is not None]
    parameters += [("state", state) for state in states]
    return remote.fetch("/v1/incidents", IncidentPage, parameters)


def change_incident(remote: Remote, id: str, verb: str, *, by: str, note: str) -> Incident:
    """Say something to one incident; `verb` is `acknowledge` or `false-alarm`."""
    return remote.post(f"/v1/incidents/{segment(id)}/{verb}", Incident, {"by": by, "note": note})


def list_silences(remote: Remote) -> SilencePage:
    """Return all silences."""
    return remote.fetch("/v1/silences", SilencePage, ())


def put_silence(remote: Remote, matchers: Sequence[object], *, seconds: int, by: str, comment: str) -> str:
    """Silence what matches from now on; returns the silence's id."""
    now = datetime.now(UTC)
    body = {
        "matchers": list(matchers),
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(seconds=seconds)).isoformat(),
        "createdBy": by,
        "comment": comment,
    }
    return remote.post("/v1/silences", _Kept, body).silenceID


def list_deliveries(
    remote: Remote, *, states: Sequence[str] = (), receiver: str | None = None, limit: int = 50
) -> DeliveryPage:
    """Return the newest messages to receivers."""
    parameters = [("limit", str(limit)), *(("state", state) for state in states)]
    return remote.fetch("/v1/deliveries", DeliveryPage, parameters + ([("receiver", receiver)] if receiver else []))


def expire_silence(remote: Remote, id: str) -> None:
    """End one silence."""
    remote.delete(f"/v1/silences/{segment(id)}")


def read_history(remote: Remote, *, job: str | None, host: str | None, days: float) -> History:
    """Return what was found in the last days."""
    since = datetime.now(UTC) - timedelta(days=days)
    incidents: list[Incident] = []
    before: str | None = None
    for _ in range(_MOST_PAGES):
        page = list_incidents(remote, job=job, host=host, limit=_PAGE, before=before)
        incidents += [each for each in page.incidents if _is_since(each.opened_at, since)]
        before = page.next
        if before is None:
            break
    parameters = [("limit", str(_PAGE)), *([("job", job)] if job is not None else [])]
    diagnoses = remote.fetch("/v1/diagnoses", _DiagnosisPage, parameters).diagnoses
    preflights = _preflights(remote, host, since) if job is None else ()
    return History(
        days=days,
        repeated=repeated_nodes(incidents),
        tested=_tested(preflights, host),
        preflights=preflights,
        incidents=tuple(incidents),
        diagnoses=tuple(each for each in diagnoses if _is_since(each.made_at, since)),
    )


def keep_preflight(remote: Remote, report: PreflightReport) -> str:
    """Send what a preflight found; returns its id."""
    body = report.result().model_dump(mode="json")
    return remote.post("/v1/preflights", KeptPreflight, body).id


def follow_events(remote: Remote) -> Iterator[IncidentEvent]:
    """Iterate over what is open, oldest first, then over what happens. Raises what asking raises, if lost for long."""
    last: str | None = None
    for each in reversed(list_incidents(remote, states=[state.value for state in LIVE_STATES], limit=_PAGE).incidents):
        yield open_event(each)
    lost_since: float | None = None
    while True:
        try:
            for number, data in remote.follow("/v1/events", last=last, seconds=_FOLLOWED_SECONDS):
                lost_since = None
                last = number or last
                try:
                    yield IncidentEvent.model_validate_json(data)
                except ValidationError as error:
                    raise Unreachable("what the collector sends is not an event of an incident") from error
        except UnhangError:
            lost_since = time.monotonic() if lost_since is None else lost_since
            if time.monotonic() - lost_since > _LOST_SECONDS:
                raise
        time.sleep(_PAUSE_SECONDS)


def open_event(incident: Incident) -> IncidentEvent:
    """Return what says that an incident is open; 0 is the number of no event."""
    return IncidentEvent(id=0, at=incident.opened_at, kind=IncidentChangeKind.OPENED, incident=incident)


def _preflights(remote: Remote, host: str | None, since: datetime) -> tuple[KeptPreflight, ...]:
    """Return what is kept; none where the collector is older than preflights that are kept."""
    parameters = [("limit", str(_MOST_PREFLIGHTS)), *([("host", host)] if host is not None else [])]
    try:
        page = remote.fetch("/v1/preflights", PreflightPage, parameters)
    except NotFound:
        return ()
    return tuple(each for each in page.preflights if _is_since(each.kept_at, since))


def _tested(preflights: Sequence[KeptPreflight], host: str | None) -> tuple[TestedNode, ...]:
    """Say of each node that was bad, in how many of the newest preflights that it took part in."""
    counts = Counter(name for each in preflights for name in each.hosts.get(NodeState.BAD, ()))
    found = []
    for name in counts if host is None else {host} & counts.keys():
        newest = [each for each in preflights if each.state_of(name) is not None][:_NEWEST]
        bad = [each for each in newest if each.state_of(name) is NodeState.BAD]
        said = (finding.text for each in bad for finding in each.findings if name in finding.hosts)
        if bad:
            found.append(TestedNode(host=name, bad=len(bad), preflights=len(newest), newest=next(said, "")))
    return tuple(sorted(found, key=lambda each: (-each.bad, each.host)))


def repeated_nodes(incidents: Sequence[Incident]) -> tuple[RepeatedNode, ...]:
    """Return the nodes of four incidents or more, those first whose hardware may have caused them."""
    at: dict[str, list[Incident]] = {}
    for each in incidents:
        for host in dict.fromkeys(each.hosts) if each.state != "false_alarm" else ():
            at.setdefault(host, []).append(each)
    found = [
        RepeatedNode(
            host=host,
            incidents=len(there),
            kinds=tuple(kind for kind, _ in Counter(each.kind.value for each in there).most_common()),
            causes=tuple(cause for cause, _ in Counter(each.cause.value for each in there).most_common()),
            of_hardware=sum(each.cause in HARDWARE_CAUSES for each in there),
        )
        for host, there in at.items()
        if len(there) >= REPEATED
    ]
    return tuple(sorted(found, key=lambda node: (-node.of_hardware, -node.incidents)))


def _is_since(text: str, since: datetime) -> bool:
    try:
        return datetime.fromisoformat(text) >= since
    except (ValueError, TypeError):
        return False
