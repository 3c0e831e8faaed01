"""Why an agent gave no usable answer, said in words that help: one place that maps foreign exceptions to reasons."""

import errno
import socket
import ssl
from collections.abc import Iterator
from enum import StrEnum

import httpx

from shared.answer.problem import detail_of
from shared.errors import Unreachable, quoted
from shared.missing import Reason
from shared.server.tls import HUNG_UP, explain_tls

_MOST_CAUSES = 32
"""Of a chain of exceptions that is followed; a chain may be circular."""

_BY_ERRNO = {
    errno.ECONNREFUSED: "the connection was refused: no agent listens there",
    errno.EHOSTUNREACH: "there is no route to the host",
    errno.ENETUNREACH: "the network cannot be reached",
    errno.ETIMEDOUT: "the connection timed out",
    errno.ECONNRESET: "the connection was reset",
    errno.EPIPE: "the other side closed the connection",
    errno.EMFILE: "the collector has no file descriptors left",
}

_BROKEN_OFF = frozenset({errno.ECONNRESET, errno.EPIPE})
"""Of connections that were there: kept ones may be to an agent that has been restarted since."""

_CUT = ("peer closed connection", "disconnected without sending", "incomplete chunked read")
"""What h11 and httpcore say of an answer, or a connection, that ends too soon."""


class Again(StrEnum):
    """Why an agent is asked once more."""

    LATE = "late"
    """Nearly all others have answered."""
    BROKE_OFF = "broke_off"
    NO_CONNECTION = "no_connection"
    """Its turn was too short to tell that none can be made."""
    GAVE_WAY = "gave_way"
    """It held up others that had not been asked."""


class NoAnswer(Unreachable):
    """One agent gave nothing that can be used; carries the reason for its `Missing`.

    `again`: what another try might change; None where it would change nothing.
    """

    def __init__(self, reason: Reason, detail: str, *, again: Again | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.again = again


def no_connection(seconds: float) -> NoAnswer:
    """Return why there is no answer from a host that does not react at all, not even by refusing."""
    detail = f"no connection within {seconds:.1f} s: the host is down, or something on the way drops packets"
    return NoAnswer(Reason.TIMED_OUT, detail, again=Again.NO_CONNECTION)


def collector_too_busy(behind_seconds: float) -> NoAnswer:
    """Return why there is no answer although the agent is not to blame: our event loop did not run."""
    return NoAnswer(Reason.TIMED_OUT, f"the collector was too busy to read the answer ({behind_seconds:.1f} s behind)")


def no_address(seconds: float) -> NoAnswer:
    """Return why a host was not asked whose name could not be resolved."""
    return NoAnswer(Reason.TIMED_OUT, f"DNS lookup failed: no answer within {seconds:.1f} s")


def explain_transport(error: httpx.HTTPError) -> NoAnswer:
    """Return why a request failed below HTTP. What the other side sent is not quoted: it may not be an agent at all."""
    if isinstance(error, httpx.TimeoutException):
        return NoAnswer(Reason.TIMED_OUT, "the agent did not answer in time")
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return NoAnswer(Reason.UNREACHABLE, f"the host name does not resolve: {cause.strerror}")
        if isinstance(cause, ssl.SSLError):
            return NoAnswer(Reason.UNREACHABLE, f"TLS failed: {explain_tls(cause)}")
        if isinstance(cause, OSError) and cause.errno in _BY_ERRNO:
            again = Again.BROKE_OFF if cause.errno in _BROKEN_OFF else None
            return NoAnswer(Reason.UNREACHABLE, _BY_ERRNO[cause.errno], again=again)
    if _is_over_tls(error) and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return NoAnswer(Reason.UNREACHABLE, f"the agent {HUNG_UP}", again=Again.BROKE_OFF)
    if isinstance(error, httpx.RemoteProtocolError):
        again = Again.BROKE_OFF if any(words in str(error) for words in _CUT) else None
        return NoAnswer(Reason.UNREADABLE, "what answered does not speak HTTP, or broke off", again=again)
    if isinstance(error, httpx.ReadError | httpx.WriteError | httpx.CloseError):
        return NoAnswer(
            Reason.UNREACHABLE, "the connection broke off in the middle of the answer", again=Again.BROKE_OFF
        )
    return NoAnswer(Reason.UNREACHABLE, f"the agent cannot be reached: {type(error).__name__}")


def explain_status(status: int, body: bytes) -> NoAnswer:
    """Return why an answer other than 200 cannot be used. `body` may be cut.

    Only a problem of our own services is quoted. A registered agent chooses where the collector sends its requests, and
    could otherwise read the answers of services that it cannot reach itself.
    """
    own = detail_of(body)
    said = f": {quoted(own, most=200)}" if own else ""
    if status in (401, 403):
        return NoAnswer(
            Reason.NOT_PERMITTED,
            f"the agent refused with HTTP {status}; give the collector the agents' token (agent_token_file)",
        )
    if status in (429, 503):
        return NoAnswer(Reason.REFUSED, f"the agent is busy, HTTP {status}{said}")
    if status == 404:
        return NoAnswer(Reason.UNREADABLE, "HTTP 404: what listens there is not an unhang agent of this version")
    return NoAnswer(Reason.UNREADABLE, f"the agent answered HTTP {status}{said}")


def _is_over_tls(error: httpx.HTTPError) -> bool:
    try:
        return error.request.url.scheme == "https"
    except RuntimeError:  # httpx does not know which request it was
        return False


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Walk the chain of `error`, groups included: asyncio reports one error per address that it tried."""
    waiting: list[BaseException] = [error]
    for _ in range(_MOST_CAUSES):
        if not waiting:
            return
        current = waiting.pop(0)
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        waiting.extend(e for e in (current.__cause__, current.__context__) if e is not None)
