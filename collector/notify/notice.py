"""What is said of an incident, before any service's own form: which rank, of which job, on which node, and why.

`include` says how much of a job goes out; with none of it a notice holds words of ours, numbers and times alone. What
comes from jobs and people is one line of bounded length without control characters, and each service's form escapes it
in its own way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from collector.notify.receivers import Include
from shared.answer.diagnosis import Diagnosis, KernelEvidence, LogEvidence, Place
from shared.answer.incidents import Incident, IncidentChangeKind, IncidentEvent, SiteLink
from shared.rank_sets import fold, unfold

MOST_NAME = 200
MOST_HEADLINE = 1_000
_MOST_LINE = 500
_MOST_LINES = 10
_MOST_HELD = 8
_MOST_CLASSES = 4
_MOST_FRAMES = 40
_INCIDENT = "Incident, with what to do now"
_TEST = "TEST, nothing hangs: "

_WORDS = {
    IncidentChangeKind.ACKNOWLEDGED: "Acknowledged",
    IncidentChangeKind.RESOLVED: "Resolved",
    IncidentChangeKind.FALSE_ALARM: "False alarm",
}
_AGAIN = {IncidentChangeKind.OPENED: "", IncidentChangeKind.REOPENED: " again"}


@dataclass(frozen=True)
class Notice:
    """What one receiver is told of one change of an incident."""

    id: str
    """Of the message: the same however often it is sent."""
    incident: str
    key: str
    change: IncidentChangeKind
    facts: Mapping[str, str]
    """In words of ours: kind, cause, certainty, state, how many ranks."""
    labels: Mapping[str, str]
    """As they were when it began, which is what Alertmanager knows it by."""
    title: str
    """Whose job and which ranks, for a heading of plain text."""
    summary: str
    """The whole in one sentence, with the job, its nodes and the headline where those are included."""
    began_at: str
    at: str
    ends_at: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    headline: str = ""
    action: str = ""
    """What to do now, and why; it may name functions and files."""
    stacks: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    link: str = ""
    links: tuple[SiteLink, ...] = ()
    """To the site's logs and dashboards; they hold names."""
    is_test: bool = False
    is_slow: bool = False
    """Is it of a job that goes on?"""

    @property
    def all_links(self) -> tuple[SiteLink, ...]:
        """The incident's own page first."""
        return (*((SiteLink(title=_INCIDENT, url=self.link),) if self.link else ()), *self.links)


def make_notice(
    event: IncidentEvent,
    opening: IncidentEvent,
    include: frozenset[Include],
    *,
    diagnosis: Diagnosis | None = None,
    page_url: str = "",
    is_test: bool = False,
) -> Notice:
    """Return what to say of an event; `opening` is the event that began what the receiver knows."""
    incident = event.incident
    names = _names(event) if Include.NAMES in include else {}
    facts = _facts(incident)
    headline = one_line(incident.headline, most=MOST_HEADLINE) if Include.HEADLINE in include else ""
    opens_with = _TEST * is_test + _word(event) + _why(event)
    over = event.kind in (IncidentChangeKind.RESOLVED, IncidentChangeKind.FALSE_ALARM)
    return Notice(
        id=f"{incident.id}-{event.id}",
        incident=incident.id,
        key=incident.key,
        change=event.kind,
        facts=facts,
        labels=_labels(opening.incident, with_names=Include.NAMES in include),
        title=_title(opens_with, facts, names),
        summary=_summary(opens_with, facts, names, headline),
        began_at=opening.at,
        at=event.at,
        ends_at=event.at if over else None,
        names=names,
        headline=headline,
        action=_action(incident) if headline else "",
        stacks=_stacks(diagnosis, incident) if Include.STACKS in include else (),
        lines=_lines(diagnosis) if Include.LINES in include else (),
        link=page_url if is_test or not page_url else f"{page_url.rstrip('/')}/incidents/{quote(incident.id, safe='')}",
        links=incident.links if Include.NAMES in include else (),
        is_test=is_test,
        is_slow=incident.is_slow,
    )


def one_line(text: str, *, most: int = MOST_NAME) -> str:
    """Return foreign text on one line, without characters that no one sees, cut to `most` characters."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cut)


def _word(event: IncidentEvent) -> str:
    if event.kind in _AGAIN:
        return event.incident.found + _AGAIN[event.kind]
    return _WORDS.get(event.kind, event.kind.value)


def _why(event: IncidentEvent) -> str:
    """Say why it is over: a job that has died is not one that goes on."""
    last = event.incident.history[-1:]
    resolved = event.kind is IncidentChangeKind.RESOLVED and last and last[0].kind is event.kind
    return f" ({one_line(last[0].note)})" if resolved and last[0].note else ""


def _facts(incident: Incident) -> dict[str, str]:
    return {
        "kind": incident.kind.value,
        "cause": incident.cause.value,
        "certainty": incident.certainty.value,
        "state": incident.state.value,
        "act": "" if incident.action is None else incident.action.do.value,
        "ranks": one_line(incident.fingerprint.culprits),
        "since": incident.still_since or incident.opened_at,
        "times_out": incident.times_out_at or "",
        "gpus": str(incident.gpus) if incident.gpus else "",
        "held_jobs": str(1 + len(incident.holds)) if incident.holds else "",
    }


def _names(event: IncidentEvent) -> dict[str, str]:
    incident, last = event.incident, event.incident.history[-1:]
    said = {"by": last[0].by, "note": last[0].note} if last and last[0].by else {}
    given = {
        "job": incident.job,
        "user": incident.owner or incident.user or "",
        "host": ",".join(incident.hosts),
        "group": incident.fingerprint.group,
        "again": incident.again,
        "other_jobs": ", ".join(f"{each.job} of {each.owner or each.user}" for each in incident.holds[:_MOST_HELD]),
        **said,
    }
    return {name: one_line(value) for name, value in given.items() if value}


def _labels(began: Incident, *, with_names: bool) -> dict[str, str]:
    ours = ("alertname", "kind", "cause", "certainty", "rank", "key")
    labels = {name: one_line(value) for name, value in began.labels.items() if with_names or name in ours}
    return {name: value for name, value in labels.items() if value}


def _fault(facts: Mapping[str, str]) -> str:
    return ", ".join(filter(None, (facts["kind"], _ranks(facts))))


def _ranks(facts: Mapping[str, str]) -> str:
    return f"{'rank' if facts['ranks'].isdigit() else 'ranks'} {facts['ranks']}" if facts["ranks"] else ""


def _summary(opens_with: str, facts: Mapping[str, str], names: Mapping[str, str], headline: str) -> str:
    job = f"{names['job']}: " if "job" in names else ""
    on = f"on {names['host']}; " if "host" in names else ""
    what = headline.removeprefix("Hung: ").removeprefix("Died: ") or _fault(facts)  # not the same word twice
    sure = f"{facts['kind']} {facts['certainty']}" if headline else facts["certainty"]  # of what, and not of its cause
    act = f"; act {facts['act']}" if facts["act"] else ""
    jobs = f"; {facts['held_jobs']} jobs are held by the same" if facts["held_jobs"] else ""
    return f"{opens_with}: {job}{what} ({on}{sure}; cause {facts['cause']}{act}{jobs})"


def _title(opens_with: str, facts: Mapping[str, str], names: Mapping[str, str]) -> str:
    owner = f" of {names['user']}" if "user" in names else ""
    job = f"{names['job']}{owner}, " if "job" in names else ""
    on = f" on {names['host']}" if "host" in names else ""
    return f"{opens_with}: {job}{_ranks(facts) or facts['kind'].replace('_', ' ')}{on}"


def _action(incident: Incident) -> str:
    action = incident.action
    if action is None:
        return ""
    command = "" if action.command is None else f": {action.command}{f' (on {action.host})' if action.host else ''}"
    return one_line(f"{action.do}: {action.text}{command} (because {action.reason})", most=MOST_HEADLINE)


def _stacks(diagnosis: Diagnosis | None, incident: Incident) -> tuple[str, ...]:
    if diagnosis is None:
        return ()
    culprits = {culprit.rank for culprit in incident.culprits}
    found = []
    for each in diagnosis.stack_classes:
        if culprits.isdisjoint(unfold(each.ranks)):
            continue
        shared = fold(culprits & set(unfold(each.ranks)))
        found.append("\n".join([f"ranks {one_line(shared)}", *_frames(each.frames)]))
    return tuple(found[:_MOST_CLASSES])


def _frames(frames: Iterable[Place]) -> list[str]:
    inner = list(frames)[-_MOST_FRAMES:]
    return [f"  {one_line(frame.function)} {one_line(frame.file)}:{frame.line}" for frame in inner]


def _lines(diagnosis: Diagnosis | None) -> tuple[str, ...]:
    if diagnosis is None or not diagnosis.findings:
        return ()
    evidence = diagnosis.findings[0].evidence
    lines = [each.line for each in evidence if isinstance(each, LogEvidence | KernelEvidence)]
    return tuple(one_line(line, most=_MOST_LINE) for line in lines[:_MOST_LINES])
