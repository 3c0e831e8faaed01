"""Webhooks: CloudEvents 1.0 as structured JSON, signed as Standard Webhooks 1.0.0.

The id of the event is the `webhook-id`, equal in every attempt: a receiver that remembers it gets each event once. The
timestamp and the signature are those of the attempt, one signature for each secret.
"""

import base64
import hashlib
import hmac

from collector.notify.notice import Notice
from collector.notify.outgoing import Outgoing, json_bytes
from collector.notify.receivers import WebhookReceiver

MEDIA_TYPE = "application/cloudevents+json; charset=utf-8"


def compose_cloudevent(receiver: WebhookReceiver, notice: Notice, now: float, *, source: str) -> Outgoing:
    """Return the request about one change. `source` is a URI reference that names the collector."""
    body = json_bytes(_event(notice, source))
    moment = str(int(now))
    signed = f"{notice.id}.{moment}.".encode() + body
    headers = {
        "Content-Type": MEDIA_TYPE,
        "webhook-id": notice.id,
        "webhook-timestamp": moment,
        "webhook-signature": " ".join(_signature(secret, signed) for secret in receiver.secrets()),
    }
    return Outgoing(receiver.destination(), body, headers)


def _event(notice: Notice, source: str) -> dict[str, object]:
    data: dict[str, object] = {
        "incident": notice.incident,
        "key": notice.key,
        "change": notice.change.value,
        **notice.facts,
        "summary": notice.summary,
        "began_at": notice.began_at,
        "at": notice.at,
        "test": notice.is_test,
    }
    asked_for = {
        "names": dict(notice.names),
        "headline": notice.headline,
        "action": notice.action,
        "stacks": list(notice.stacks),
        "lines": list(notice.lines),
        "link": notice.link,
        "links": {each.title: each.url for each in notice.links},
    }
    return {
        "specversion": "1.0",
        "id": notice.id,
        "source": source,
        "type": f"unhang.incident.{notice.change.value}",
        "subject": notice.incident,
        "time": notice.at,
        "datacontenttype": "application/json",
        "data": data | {name: value for name, value in asked_for.items() if value},
    }


def _signature(secret: bytes, signed: bytes) -> str:
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
