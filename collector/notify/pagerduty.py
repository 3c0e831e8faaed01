"""PagerDuty, Events API v2 (PagerDuty/developer-docs, events-API-v2/02-Trigger-Events.md).

The fingerprint's key is the `dedup_key`: whatever is sent twice is one alert there. What is acknowledged or
resolved here is so there; a false alarm is resolved.
"""

from collector.notify.notice import Notice, one_line
from collector.notify.outgoing import Outgoing, json_bytes
from collector.notify.receivers import PagerDutyReceiver
from shared.answer.incidents import IncidentChangeKind

MOST_SUMMARY = 1024
"""Characters."""
MOST_EVENT_BYTES = 512_000
_MOST_STACK = 16_000
_MORE_THAN_SLOW = ("critical", "error")
"""A job that goes on is for office hours."""

_ACTIONS = {
    IncidentChangeKind.ACKNOWLEDGED: "acknowledge",
    IncidentChangeKind.RESOLVED: "resolve",
    IncidentChangeKind.FALSE_ALARM: "resolve",
}


def compose_event(receiver: PagerDutyReceiver, notice: Notice) -> Outgoing:
    """Return the request about one change."""
    action = _ACTIONS.get(notice.change, "trigger")
    routing_key = receiver.routing_key()
    event: dict[str, object] = {
        "routing_key": routing_key,
        "event_action": action,
        "dedup_key": notice.key,
    }
    if action == "trigger":
        event |= {"payload": _payload(receiver, notice), "client": "unhang"}
        if links := [{"href": each.url, "text": each.title} for each in notice.all_links]:
            event["links"] = links
        if notice.link:
            event["client_url"] = notice.link
    body = json_bytes(event)
    assert len(body) <= MOST_EVENT_BYTES
    return Outgoing(receiver.destination(), body, {"Content-Type": "application/json"}, (routing_key,))


def _payload(receiver: PagerDutyReceiver, notice: Notice) -> dict[str, object]:
    names = notice.names
    payload: dict[str, object] = {
        "summary": one_line(notice.summary, most=MOST_SUMMARY),
        "source": names.get("host") or names.get("job") or "unhang",
        "severity": "warning" if notice.is_slow and receiver.severity in _MORE_THAN_SLOW else receiver.severity,
        "timestamp": notice.began_at,
        "class": notice.facts["kind"],
        "custom_details": _details(notice),
    }
    component = {"component": f"rank {notice.facts['ranks']}"} if notice.facts["ranks"] else {}
    return payload | component | ({"group": names["job"]} if "job" in names else {})


def _details(notice: Notice) -> dict[str, str]:
    given = {
        "incident": notice.incident,
        **notice.facts,
        **notice.names,
        "headline": notice.headline,
        "what to do": notice.action,
        "stacks": "\n\n".join(notice.stacks)[:_MOST_STACK],
        "lines": "\n".join(notice.lines),
    }
    return {name: value for name, value in given.items() if value}
