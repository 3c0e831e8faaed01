"""Incidents, silences and what was found before, as tables and lines."""

from collections.abc import Sequence

from cli.sources.incidents import REPEATED, History, RepeatedNode, TestedNode
from cli.tables.table import table, text
from collector.show.text.printable import printable
from shared.answer.deliveries import Delivery
from shared.answer.incidents import Incident, IncidentChangeKind, IncidentEvent, Silence, SilenceMatcher
from shared.plural import counted
from shared.shell_commands import copyable

_HEADS = ("ID", "OPENED", "STATE", "JOB", "HEADLINE")
_SILENCE_HEADS = ("ID", "STATE", "ENDS", "BY", "MATCHERS", "COMMENT")
_PREFLIGHT_HEADS = ("ID", "KEPT", "VERDICT", "HEADLINE")
_DELIVERY_HEADS = ("RECEIVER", "CHANGE", "STATE", "CREATED", "FAILED", "INCIDENT", "TROUBLE")
_DIAGNOSIS_HEADS = ("ID", "MADE", "VERDICT", "JOB", "HEADLINE")


def _listed(heads: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> str:
    return text(table(heads, rows) if rows else [nothing])


def incidents_table(incidents: Sequence[Incident]) -> str:
    """Return one line per incident."""
    return _listed(_HEADS, [_row(each) for each in incidents], "no incidents")


def silences_table(silences: Sequence[Silence]) -> str:
    """Return one line per silence."""
    rows = [
        (s.id, s.status.state, _minute(s.endsAt), s.createdBy, " ".join(map(_matcher, s.matchers)), s.comment)
        for s in silences
    ]
    return _listed(_SILENCE_HEADS, rows, "no silences")


def deliveries_table(deliveries: Sequence[Delivery]) -> str:
    """Return one line per message."""
    rows = [
        (d.receiver, d.kind.value, d.state.value, _minute(d.created_at), str(d.attempts), d.incident, d.trouble)
        for d in deliveries
    ]
    return _listed(_DELIVERY_HEADS, rows, "no messages")


def history_table(history: History) -> str:
    """Return the nodes that are at fault again and again, then incidents, then diagnoses."""
    lines = [_repeated(node, history.days) for node in history.repeated]
    lines += [_tested(node) for node in history.tested]
    if history.incidents:
        lines += ["Incidents", *table(_HEADS, [_row(each) for each in history.incidents], indent=2)]
    if history.diagnoses:
        rows = [(d.id, _minute(d.made_at), d.verdict.value, d.job or "-", d.headline) for d in history.diagnoses]
        lines += ["Diagnoses", *table(_DIAGNOSIS_HEADS, rows, indent=2)]
    if history.preflights:
        tests = [(p.id, _minute(p.kept_at), p.verdict.value, p.headline) for p in history.preflights]
        lines += ["Preflights", *table(_PREFLIGHT_HEADS, tests, indent=2)]
    return text(lines or [f"nothing was kept in the last {history.days:g} days"])


def event_line(event: IncidentEvent, collector: str | None = None) -> str:
    """Return what happened, to whose job, where and how sure that is; while it is open, what to do, and a link."""
    incident = event.incident
    owner = f" of {incident.owner or incident.user}" if incident.owner or incident.user else ""
    on = f", on {', '.join(incident.hosts)}" if incident.hosts else ""
    again = f"; {incident.again}" if incident.again else ""
    what = f"{incident.headline} ({incident.certainty}{on}{again})"
    lines = ["  ".join((event.at, f"{event.kind.replace('_', ' ')}{_why(event)}", f"{incident.job}{owner}", what))]
    if incident.is_live:
        link = f"{collector.rstrip('/')}/incidents/{incident.id}" if collector else _look_at(incident.job)
        acts = [] if event.kind is IncidentChangeKind.RELEASED else _act(incident)  # its own job is gone
        lines += [*acts, *([f"  see  {link}"] if link else [])]
    return "".join(f"{printable(line)}\n" for line in lines)


def _why(event: IncidentEvent) -> str:
    """Say what was said of the change: how the job ended, how many others are held, who works on it."""
    last = event.incident.history[-1:]
    told = [each for each in last if each.kind is event.kind is not IncidentChangeKind.OPENED]
    words = [word for each in told for word in (each.by, each.note) if word]
    return f" ({': '.join(words)})" if words else ""


def _act(incident: Incident) -> list[str]:
    action = incident.action
    if action is None:
        return []
    command = [f"       {action.host or ''}$ {action.command}"] if action.command else []
    return [f"  act  {action.do}: {action.text}", *command]


def _look_at(job: str) -> str:
    return copyable("unhang", "diagnose", operands=(job,)) or ""


def _repeated(node: RepeatedNode, days: float) -> str:
    """Send nobody to look at hardware because of what programs did."""
    told = f"{node.host} had culprits in {node.incidents} incidents in {days:g} days ({', '.join(node.kinds)})"
    causes = ", ".join(cause.replace("_", " ") for cause in node.causes)
    if node.of_hardware >= REPEATED:
        return printable(f"{told}; hardware can cause {node.of_hardware} of them ({causes}): check its hardware")
    if node.of_hardware:
        return printable(f"{told}; hardware can cause {node.of_hardware} of them ({causes}): too few to blame the node")
    return printable(f"{told}; nothing in their causes ({causes}) points to its hardware")


def _tested(node: TestedNode) -> str:
    how_often = f"{node.host} was bad in {node.bad} of the last {counted(node.preflights, 'preflight')}"
    return printable(f"{how_often} that it took part in: {node.newest}")


def _row(incident: Incident) -> tuple[str, ...]:
    state = incident.state.value + (" (silenced)" if incident.silenced_by else "")
    if incident.undelivered_to:
        state += f" (not delivered: {', '.join(incident.undelivered_to)})"
    return incident.id, _minute(incident.opened_at), state, incident.job, incident.headline


def _matcher(matcher: SilenceMatcher) -> str:
    how = ("=~" if matcher.isEqual else "!~") if matcher.isRegex else ("=" if matcher.isEqual else "!=")
    return f"{matcher.name}{how}{matcher.value}"


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")
