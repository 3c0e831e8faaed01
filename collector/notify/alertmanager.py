"""Alertmanager, API v2 (https://github.com/prometheus/alertmanager/blob/v0.25.0/api/v2/openapi.yaml).

An alert is known by its labels. It is over at `endsAt`: so it is sent again and again with an `endsAt` some way ahead,
as Prometheus does (four times the pause between), and once more with the time at which the incident was over. Should
all collectors be lost, it ends there within that time.
"""

from datetime import UTC, datetime

from collector.notify.notice import Notice
from collector.notify.outgoing import Outgoing, json_bytes
from collector.notify.receivers import AlertmanagerReceiver

_AHEAD = 4
_MOST_STACK = 16_000


def compose_alert(receiver: AlertmanagerReceiver, notice: Notice, now: float) -> Outgoing:
    """Return the request about one incident."""
    ends = notice.ends_at if notice.ends_at is not None else _time(now + _AHEAD * receiver.resend_seconds)
    labels = {**notice.labels, **receiver.labels}
    if notice.is_test:
        labels = {**labels, "alertname": "UnhangTest", "test": "true"}
    alert = {
        "labels": labels,
        "annotations": _annotations(notice),
        "startsAt": notice.began_at,
        "endsAt": ends,
        **({"generatorURL": notice.link} if notice.link else {}),
    }
    token = receiver.token()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    return Outgoing(receiver.destination(), json_bytes([alert]), headers)


def _annotations(notice: Notice) -> dict[str, str]:
    given = {
        "summary": notice.summary,
        "incident": notice.incident,
        "state": notice.facts["state"],
        "description": notice.headline,
        "action": notice.action,
        **{_annotation(each.title): each.url for each in notice.links},
        "stacks": "\n\n".join(notice.stacks)[:_MOST_STACK],
        "lines": "\n".join(notice.lines),
    }
    return {name: value for name, value in given.items() if value}


def _annotation(title: str) -> str:
    """Return a title as names of annotations are written: `link_gpu_dashboard`."""
    return f"link_{title.lower().replace(' ', '_').replace('-', '_')}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
