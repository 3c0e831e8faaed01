"""Registers this agent with collectors, again and again: one thread each, so that none delays the others.

A collector that watches jobs says so in its answer. It gets the node's digest with each registration then, and one more
registration as soon as a state in the digest changes.
"""

import http.client
import logging
import random
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from agent.look.digests import Digests
from agent.settings import AgentSettings
from shared.answer.problem import detail_of
from shared.errors import InvalidSettings, UnhangError, Unreachable, quoted
from shared.server.addresses import parse_address
from shared.server.tls import ClientTls, TlsFiles, explain_tls
from shared.server.tokens import TokenFile
from shared.wire.registration import Lease, Registration

_log = logging.getLogger(__name__)

SECONDS = 5.0
"""For each step of talking to a collector."""

_RENEWALS_PER_LEASE = 3
_SHORTEST, _LONGEST = 0.1, 3600.0
"""Between two registrations, whatever the collector says."""

_CHANGE_SECONDS = 2.0
"""Between two registrations at least, however often states change."""

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_JITTER = 0.2
_MOST_COLLECTORS = 16
_MOST_ANSWER_BYTES = 65_536
_ADVICE = "write it as http://HOST:8470"
_ADVERTISE_ADVICE = "write --advertise http://HOST:8471"


class _InOnePiece(http.client.HTTPConnection):
    """Sends a request's head and body together: who receives them apart is woken, and reads, twice."""

    _held = b""

    def send(self, data: Any) -> None:
        """Hold it until the answer is asked for."""
        self._held += data

    def getresponse(self) -> http.client.HTTPResponse:
        """Send what is held, and return the answer."""
        held, self._held = self._held, b""
        super().send(held)
        return super().getresponse()


class _TlsConnection(_InOnePiece, http.client.HTTPSConnection):
    """One over TLS."""


class Registrar:
    """Registers at one collector. Raises InvalidSettings where that collector's URL cannot be used."""

    def __init__(self, url: str, settings: AgentSettings, digests: Digests | None = None) -> None:
        self._url = url
        self._digests = digests
        self._digest_seconds: float | None = None
        self._sent = -1
        """The number of the states that were sent last."""
        self._secure, self._host, self._port, base = _parse(url)
        self._path = f"{base}/v1/agents/{quote(settings.host, safe='')}"
        own = TlsFiles(settings.tls_cert_file, settings.tls_key_file, settings.collector_ca_file)
        self._tls = ClientTls(own) if self._secure else None
        self._tokens = None if settings.collector_token_file is None else TokenFile(settings.collector_token_file)
        self._registration = _registration(settings)
        self._kept: http.client.HTTPConnection | None = None
        """For the next registration: a handshake costs a collector most of what one costs it."""
        self._works = True

    def keep_on(self, stop: threading.Event) -> None:
        """Register and renew until `stop`; the collector says how long it counts on us."""
        pause = _FIRST_PAUSE_SECONDS
        while not stop.is_set():
            try:
                wait = min(_LONGEST, max(_SHORTEST, self.register().lease_seconds / _RENEWALS_PER_LEASE))
                pause = _FIRST_PAUSE_SECONDS
                self._note(None)
            except UnhangError as error:
                wait, pause = pause, min(2 * pause, _LONGEST_PAUSE_SECONDS)
                self._note(error)
                stop.wait(_jittered(wait))
                continue
            self._wait(_jittered(wait), stop)
        self.close()

    def close(self) -> None:
        """Keep no connection open."""
        if self._kept is not None:
            self._kept.close()

    def register(self) -> Lease:
        """Register once. Raises Unreachable, and InvalidSettings where the token cannot be read."""
        headers = {"Content-Type": "application/json", "Connection": "keep-alive" if self._secure else "close"}
        tokens = () if self._tokens is None else self._tokens.tokens()
        if tokens:
            headers["Authorization"] = "Bearer " + tokens[0].decode("latin-1")
        lease = self._lease(*self._put(self._body(), headers))
        self._digest_seconds = lease.digest_seconds
        return lease

    def _put(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Return status and body of the answer. What a kept connection does not bring is sent again over a new one."""
        kept, self._kept = self._kept, None
        connection = kept or self._connect()
        try:
            connection.request("PUT", self._path, body, headers)
            answer = connection.getresponse()
            said = answer.read(_MOST_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if kept is not None:
                return self._put(body, headers)
            raise Unreachable(f"the collector {self._url} cannot be reached: {_why(error)}") from error
        if self._secure and answer.status == 200 and answer.isclosed() and not answer.will_close:
            self._kept = connection
        else:
            connection.close()
        return answer.status, said

    def _body(self) -> bytes:
        registration = self._registration
        if self._digests is not None and self._digest_seconds is not None:
            digest, self._sent = self._digests.newest()
            registration = registration.model_copy(update={"digest": digest})
        exclude = {"digest"} if registration.digest is None else None  # collectors that do not ask for one
        return registration.model_dump_json(exclude=exclude).encode()

    def _wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait until the next registration is due, or a state has changed that the collector wants to know."""
        if self._digests is None or self._digest_seconds is None:
            stop.wait(seconds)
            return
        least = min(seconds, _jittered(_CHANGE_SECONDS))
        stop.wait(least)
        if self._sent < 0:
            return  # it has asked just now
        most = min(seconds, max(_CHANGE_SECONDS, _jittered(self._digest_seconds)))
        self._digests.wait(most - least, known=self._sent, stop=stop)

    def _connect(self) -> http.client.HTTPConnection:
        """Return a connection that opens with its first request, by the certificates of now."""
        if self._tls is None:
            return _InOnePiece(self._host, self._port, timeout=SECONDS)
        return _TlsConnection(self._host, self._port, timeout=SECONDS, context=self._tls.context())

    def _lease(self, status: int, said: bytes) -> Lease:
        if status != 200:
            own = detail_of(said)
            detail = f": {quoted(own, most=200)}" if own else ""
            raise Unreachable(f"the collector {self._url} answers HTTP {status}{detail}")
        try:
            return Lease.model_validate_json(said)
        except ValidationError as error:
            raise Unreachable(f"what answers at {self._url} is not a collector") from error

    def _note(self, error: UnhangError | None) -> None:
        """Write a line when it begins to fail and when it works again."""
        if error is not None and self._works:
            _log.warning("not registered: %s", error)
        elif error is None and not self._works:
            _log.warning("registered at %s", self._url)  # an agent shows no line below a warning
        self._works = error is None


@contextmanager
def registered(settings: AgentSettings, digests: Digests | None = None) -> Iterator[None]:
    """Keep this agent registered at all collectors that the settings name. Raises InvalidSettings."""
    registrars = make_registrars(settings, digests)
    stop = threading.Event()
    threads = [
        threading.Thread(target=each.keep_on, args=(stop,), name="registration", daemon=True) for each in registrars
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if digests is not None:
            digests.wake()
        for thread in threads:
            thread.join(SECONDS / len(threads))


def make_registrars(settings: AgentSettings, digests: Digests | None = None) -> tuple[Registrar, ...]:
    """Return one registrar for each collector. Raises InvalidSettings."""
    urls = dict.fromkeys(settings.collectors.replace(",", " ").split())
    if len(urls) > _MOST_COLLECTORS:
        raise InvalidSettings(f"{len(urls)} collectors are too many", advice=f"name at most {_MOST_COLLECTORS}")
    return tuple(Registrar(url, settings, digests) for url in urls)


def _jittered(seconds: float) -> float:
    """Return about so many: a thousand agents must not come in step."""
    return seconds * random.uniform(1 - _JITTER, 1 + _JITTER)


def _parse(url: str) -> tuple[bool, str, int, str]:
    """Return whether it is HTTPS, then host, port and path."""
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")  # as it is looked up: what cannot be would end the thread that registers
    except ValueError as error:
        raise InvalidSettings(f"{quoted(url)} is not the URL of a collector: {error}", advice=_ADVICE) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not parts.path.isprintable():
        raise InvalidSettings(f"{quoted(url)} is not the URL of a collector", advice=_ADVICE)
    secure = parts.scheme == "https"
    return secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/")


def _registration(settings: AgentSettings) -> Registration:
    scheme = "http" if settings.tls_cert_file is None else "https"
    url = _advertised(settings.advertise)
    port = parse_address(settings.listen).port
    if port == 0:
        raise InvalidSettings("port 0 cannot be registered", advice="name the port to listen on with --listen")
    return Registration.model_validate({"url": url, "scheme": scheme, "port": port})


def _advertised(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidSettings(f"{quoted(url)} is not a URL: {error}", advice=_ADVERTISE_ADVICE) from error
    if parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise InvalidSettings(
            f"{quoted(url)} cannot be registered: collectors take a scheme, a host and a port",
            advice=_ADVERTISE_ADVICE,
        )
    return url or None


def _why(error: OSError | http.client.HTTPException) -> str:
    if isinstance(error, ssl.SSLError):
        return explain_tls(error)
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__)
