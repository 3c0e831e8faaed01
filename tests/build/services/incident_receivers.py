"""Servers of the kinds that are told of incidents, as strict as the official clients and descriptions are.

PagerDuty's is drawn from its OpenAPI document (PagerDuty/api-schema, reference/events-v2) and its pages on limits
(PagerDuty/developer-docs, events-API-v2); Slack's lets the models of `slack_sdk` judge each block. That the official
clients are content with both is a test (`tests/unit/collector/notify/test_servers.py`).
"""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block

from tests.build.services.certificates import Signed

ROUTING_KEY = "R0123456789ABCDEF0123456789ABCDEF"[:32]
SLACK_PATH = "/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"
SLACK_TOKEN, SLACK_CHANNEL = "xoxb-1-2-secret", "C0123456789"
SECONDS = 60.0

Answer = tuple[int, dict[str, str], bytes]

_TEXT = {"type": "string", "minLength": 1}
_EVENT = Draft202012Validator(
    {
        "type": "object",
        "required": ["routing_key", "event_action"],
        "additionalProperties": False,
        "properties": {
            "routing_key": {"const": ROUTING_KEY},
            "event_action": {"enum": ["trigger", "acknowledge", "resolve"]},
            "dedup_key": {**_TEXT, "maxLength": 255},
            "client": _TEXT,
            "client_url": {**_TEXT, "pattern": "^https?://"},
            "links": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["href"],
                    "properties": {"href": {**_TEXT, "pattern": "^https?://"}, "text": _TEXT},
                },
            },
            "images": {"type": "array"},
            "payload": {
                "type": "object",
                "required": ["summary", "severity", "source"],
                "additionalProperties": False,
                "properties": {
                    "summary": {**_TEXT, "maxLength": 1024},
                    "severity": {"enum": ["critical", "warning", "error", "info"]},
                    "source": _TEXT,
                    "timestamp": {**_TEXT, "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"},
                    "component": _TEXT,
                    "group": _TEXT,
                    "class": _TEXT,
                    "custom_details": {"type": "object"},
                },
            },
        },
        "if": {"properties": {"event_action": {"const": "trigger"}}},
        "then": {"required": ["payload"]},
        "else": {"required": ["dedup_key"]},
    }
)


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    def json(self) -> Any:
        """Return what it says."""
        return json.loads(self.body)


class ReceiverServer:
    """Takes requests, and answers as it was told to, else as its kind does."""

    def __init__(self) -> None:
        self.port, self.scheme = 0, "http"
        self.received: list[Received] = []
        self.next_answers: list[Answer] = []
        self.before_answer: Callable[[Received], None] = lambda _: None

    @property
    def url(self) -> str:
        """Return its address."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def judge(self, received: Received) -> Answer:
        """Return the answer of a server of this kind."""
        return 204, {}, b""

    def take(self, received: Received) -> Answer:
        """Note a request, and answer it."""
        self.received.append(received)
        self.before_answer(received)
        return self.next_answers.pop(0) if self.next_answers else self.judge(received)

    def until(self, count: int) -> list[Received]:
        """Return what has come, once it is so many."""
        deadline = time.monotonic() + SECONDS
        while len(self.received) < count:
            assert time.monotonic() < deadline, self.received
            time.sleep(0.02)
        return self.received


class PagerDutyServer(ReceiverServer):
    """The Events API v2: alerts by their keys."""

    def __init__(self) -> None:
        super().__init__()
        self.alerts: list[dict[str, Any]] = []
        """Each with its `dedup_key`, `state` and what triggered it."""

    def judge(self, received: Received) -> Answer:
        """Accept a right event (202), and do what it asks."""
        if received.path != "/v2/enqueue" or len(received.body) > 512_000:
            return 404, {}, b""
        if received.headers.get("content-type", "").partition(";")[0] != "application/json":
            return 400, {}, b'{"status":"invalid","message":"Content-Type","errors":[]}'
        try:
            event = received.json()
        except ValueError:
            return 400, {}, b'{"status":"Unrecognized object","message":"JSON parse error","errors":[]}'
        if wrong := [f"{error.json_path}: {error.instance}" for error in _EVENT.iter_errors(event)]:
            said = {"status": "invalid event", "message": "Event object is invalid", "errors": wrong}
            return 400, {}, json.dumps(said).encode()
        key = event.get("dedup_key") or f"made-{len(self.alerts)}"
        self._apply(event, key)
        said = {"status": "success", "message": "Event processed", "dedup_key": key}
        return 202, {"Content-Type": "application/json"}, json.dumps(said).encode()

    def _apply(self, event: dict[str, Any], key: str) -> None:
        open_now = [each for each in self.alerts if each["dedup_key"] == key and each["state"] != "resolved"]
        if event["event_action"] == "trigger":
            if open_now:
                open_now[0]["triggers"].append(event["payload"])
            else:
                self.alerts.append({"dedup_key": key, "state": "triggered", "triggers": [event["payload"]]})
        elif open_now:
            open_now[0]["state"] = f"{event['event_action']}d"


class SlackServer(ReceiverServer):
    """An incoming webhook, and the API's `chat.postMessage` for one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.posted: dict[str, dict[str, Any]] = {}
        """The messages of the channel by their `ts`."""

    def judge(self, received: Received) -> Answer:
        """Accept a right message (`ok`), else say in Slack's words what is wrong."""
        if received.path == "/api/chat.postMessage":
            return 200, {"Content-Type": "application/json"}, json.dumps(self._post(received)).encode()
        if received.path != SLACK_PATH:
            return 404, {}, b"no_service"
        wrong = _wrong_message(received)
        return (400, {}, wrong.encode()) if wrong else (200, {"Content-Type": "text/html"}, b"ok")

    def _post(self, received: Received) -> dict[str, Any]:
        if received.headers.get("authorization") != f"Bearer {SLACK_TOKEN}":
            return {"ok": False, "error": "invalid_auth"}
        if wrong := _wrong_message(received):
            return {"ok": False, "error": wrong}
        message = received.json()
        if message.get("channel") != SLACK_CHANNEL:
            return {"ok": False, "error": "channel_not_found"}
        if message.get("thread_ts") not in (None, *self.posted):
            return {"ok": False, "error": "thread_not_found"}
        ts = f"1700000000.{len(self.posted):06}"
        self.posted[ts] = message
        return {"ok": True, "channel": SLACK_CHANNEL, "ts": ts, "message": message}


def _wrong_message(received: Received) -> str:
    try:
        message = received.json()
    except ValueError:
        return "invalid_payload"
    blocks = message.get("blocks", [])
    if not message.get("text") and not blocks:
        return "no_text"
    if len(message.get("text", "")) > 40_000 or len(blocks) > 50:
        return "invalid_blocks"
    try:
        for block in Block.parse_all(blocks):
            block.validate_json()
    except (SlackObjectFormationError, TypeError, KeyError):
        return "invalid_blocks"
    is_long = any("text" in block and not 1 <= len(block["text"]["text"]) <= 3000 for block in blocks)
    return "invalid_blocks" if is_long else ""


@contextmanager
def served_receiver(server: ReceiverServer, signed: Signed | None = None) -> Iterator[ReceiverServer]:
    """Serve on loopback until the end of the block; over TLS with a certificate."""

    context = None
    if signed is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(signed.certificate, signed.key)
        server.scheme = "https"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, answer = server.take(Received(self.path, headers, body, time.time()))
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def finish_request(self, request: Any, client_address: Any) -> None:
            if context is None:
                super().finish_request(request, client_address)
                return
            with context.wrap_socket(request, server_side=True) as wrapped:
                super().finish_request(wrapped, client_address)

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that was killed

    with Quiet(("127.0.0.1", 0), Handler) as listening:
        server.port = listening.server_address[1]
        thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
