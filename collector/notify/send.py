"""One attempt to send: the request of the receiver's kind, and what its answer means."""

import asyncio
import json
import os
import re
import socket
import ssl
import time
from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpcore
import httpx

from collector.gather.bounded_body import read_body
from collector.gather.failures import NoAnswer
from collector.keep.watched.deliveries import ATTEMPT_SECONDS
from collector.notify.alertmanager import compose_alert
from collector.notify.destinations import Destinations, parse_receiver_url
from collector.notify.notice import Notice, one_line
from collector.notify.outgoing import NotDelivered, Outgoing
from collector.notify.pagerduty import compose_event
from collector.notify.receivers import (
    AlertmanagerReceiver,
    PagerDutyReceiver,
    Receiver,
    SiteReceiver,
    SlackReceiver,
    WebhookReceiver,
)
from collector.notify.site_receiver import compose_message_of_site
from collector.notify.slack import WORD, compose_message
from collector.notify.webhook import compose_cloudevent
from shared import VERSION
from shared.redaction.redact import HIDDEN
from shared.server.tls import explain_tls
from shared.value import whole_texts

SEND_SECONDS = ATTEMPT_SECONDS - 5.0
"""For a whole attempt, so that its lease outlasts it."""
_MOST_ANSWER = 4_096
_MOST_RETRY_AFTER = 3_600.0
_GONE = 410


def compose(receiver: Receiver, notice: Notice, *, source: str, follows: str | None = None) -> Outgoing:
    """Return the request. Raises InvalidSettings where a file of the receiver cannot be used.

    `follows`: what the receiver calls the message that began what this one goes on with.
    """
    match receiver:
        case AlertmanagerReceiver():
            return compose_alert(receiver, notice, time.time())
        case PagerDutyReceiver():
            return compose_event(receiver, notice)
        case SlackReceiver():
            return compose_message(receiver, notice, follows)
        case WebhookReceiver():
            return compose_cloudevent(receiver, notice, time.time(), source=source)
        case SiteReceiver():
            return compose_message_of_site(receiver, notice)


async def send(
    client: httpx.AsyncHTTPTransport, outgoing: Outgoing, destinations: Destinations, *, needs_tls: bool
) -> str:
    """Post it, and return what the receiver calls it. Raises NotDelivered, and InvalidSettings where it may not go."""
    url = parse_receiver_url(outgoing.url, destinations, needs_tls=needs_tls)
    headers = {"User-Agent": f"unhang/{VERSION}", "Accept-Encoding": "identity", **outgoing.headers}
    try:
        async with asyncio.timeout(SEND_SECONDS):
            request = httpx.Request("POST", url, content=outgoing.body, headers=headers)
            async with aclosing(await client.handle_async_request(request)) as response:
                body = await read_body(response, most_bytes=_MOST_ANSWER, cut=True)
    except TimeoutError as error:
        raise NotDelivered(f"no answer within {SEND_SECONDS:.0f} s") from error
    except NoAnswer as error:
        raise NotDelivered(f"unreadable: {error}") from error
    except (httpx.HTTPError, httpcore.ConnectError) as error:
        raise NotDelivered(_why(error)) from error
    return _judge(response, bytes(body), outgoing)


def _judge(response: httpx.Response, body: bytes, outgoing: Outgoing) -> str:
    status = response.status_code
    if 200 <= status < 300:
        return outgoing.read_answer(body)
    said = _said(body)
    for secret in outgoing.secrets:
        said = said.replace(secret, HIDDEN)
    raise NotDelivered(
        f"HTTP {status}{': ' if said else ''}{said}{_meaning(status)}",
        retry_after=_retry_after(response.headers.get("retry-after", "")),
        is_final=status == _GONE,
    )


def _meaning(status: int) -> str:
    if 300 <= status < 400:
        return ", a redirect: these are not followed; configure the right URL"
    return ", it wants no more" if status == _GONE else ""


def _said(body: bytes) -> str:
    """Return what PagerDuty and Slack say in their own forms. Nothing else of an answer is shown."""
    if WORD.fullmatch(body):
        return body.decode()
    try:
        given = whole_texts(json.loads(body))
    except (ValueError, RecursionError):
        return ""
    if not isinstance(given, dict) or not isinstance(given.get("message"), str):
        return ""
    errors = given.get("errors")
    parts = [
        given["message"],
        *(each for each in (errors if isinstance(errors, list) else []) if isinstance(each, str)),
    ]
    return one_line("; ".join(parts[:4]))


def _retry_after(text: str) -> float | None:
    """Read seconds or a date, RFC 9110 10.2.3."""
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        return min(_MOST_RETRY_AFTER, float(text))
    try:
        seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return None
    return min(_MOST_RETRY_AFTER, max(0.0, seconds))


def _why(error: Exception) -> str:
    cause: BaseException | None = error
    for _ in range(16):
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {explain_tls(cause)}"
        if isinstance(cause, socket.gaierror):
            return f"its name does not resolve: {cause.strerror}"
        if isinstance(cause, OSError) and cause.errno:
            return f"no connection: {os.strerror(cause.errno)}"
        if cause is None:
            break
        cause = cause.__cause__ or cause.__context__
    return f"{type(error).__name__}: {one_line(str(error))}"
