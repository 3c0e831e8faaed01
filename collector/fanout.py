"""Ask many agents at once under one deadline, and keep what came.

An agent that does not answer costs one `Unanswered` with a reason, never the others' answers. Nothing that an
agent sends is trusted: bodies are bounded before and after decompression, and validated as bytes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import httpx
from pydantic import ValidationError

from collector.bodies import MOST_BODY_BYTES, read_body
from collector.diagnose.expected import Unanswered
from collector.failures import NoAnswer, explain_status, explain_transport, first_mistake
from collector.hostlists import AgentAddress
from shared import SCHEMA_VERSION
from shared.errors import quoted
from shared.missing import Missing, Reason
from shared.tls import ClientTls
from shared.value import Value

MOST_AT_ONCE = 256
"""Requests in flight. The rest wait their turn, under the same deadline."""

NODE_SECONDS = 15.0
"""For one agent's answer, unless the whole is due sooner. An agent gives up on a look of its own after 10 s."""

_BIG_BODY_BYTES = 1_048_576
"""Larger bodies are validated in a thread, so that one does not hold up the others."""

Parameters = Mapping[str, str | int | Sequence[str | int]]
"""Query parameters of one request."""

T = TypeVar("T", bound=Value)


@dataclass(frozen=True)
class Deadline:
    """A point in time by which an answer is due, passed down to everything that waits."""

    at: float
    """By `time.monotonic`, which is the event loop's clock too."""

    @classmethod
    def within(cls, seconds: float) -> "Deadline":
        """Return the deadline that lies `seconds` from now."""
        return cls(time.monotonic() + seconds)

    @property
    def seconds_left(self) -> float:
        """Return how long there is, never below zero."""
        return max(0.0, self.at - time.monotonic())

    def earlier(self, seconds: float) -> "Deadline":
        """Return this deadline, or the one `seconds` from now where that is sooner."""
        return Deadline(min(self.at, time.monotonic() + seconds))


@dataclass(frozen=True)
class Request:
    """What one agent is asked."""

    address: AgentAddress
    path: str
    parameters: Parameters
    otherwise: "Request | None" = None
    """What to ask an agent that does not know the path: one of an earlier version."""


@dataclass(frozen=True)
class Answered(Generic[T]):
    """What one agent said."""

    address: AgentAddress
    value: T
    size_bytes: int
    took_seconds: float


@dataclass(frozen=True)
class Silent:
    """An agent that said nothing that can be used, and why."""

    address: AgentAddress
    missing: Missing

    def unanswered(self, *, host: str | None = None, ranks: str = "") -> Unanswered:
        """Return it as the verdict takes it; `host` and `ranks` where an earlier answer told them."""
        return Unanswered(host=self.address.host if host is None else host, missing=self.missing, ranks=ranks)


@dataclass(frozen=True)
class Round(Generic[T]):
    """The outcome of asking many, in the order in which they were asked, whoever answered first."""

    answered: tuple[Answered[T], ...]
    silent: tuple[Silent, ...]


def make_client(
    *,
    token: str | None = None,
    auth: httpx.Auth | None = None,
    tls: ClientTls | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    mounts: Mapping[str, httpx.AsyncBaseTransport | None] | None = None,
    most_at_once: int = MOST_AT_ONCE,
) -> httpx.AsyncClient:
    """Return a client for agents. The environment's proxies are left alone: agents are inside the cluster."""
    headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return httpx.AsyncClient(
        headers=headers,
        auth=auth,
        verify=True if tls is None else tls.context(),
        event_hooks={} if tls is None else {"request": [partial(_renew, tls)]},
        transport=transport,
        mounts=mounts,
        timeout=None,  # every request runs under a deadline of ours, which is for the whole of it
        limits=httpx.Limits(max_connections=most_at_once, max_keepalive_connections=most_at_once),
        trust_env=False,
        follow_redirects=False,
    )


async def _renew(tls: ClientTls, _: httpx.Request) -> None:
    """Use changed certificates for the connections to come."""
    tls.context()


class Fanout:
    """Asks agents through one client, a bounded number at a time."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        most_at_once: int = MOST_AT_ONCE,
        most_bytes: int = MOST_BODY_BYTES,
        node_seconds: float = NODE_SECONDS,
        on_silence: Callable[[Silent], None] | None = None,
    ) -> None:
        """`node_seconds` bounds one agent, so that those that hang do not use up the turns of the others.

        `on_silence` is told of each agent that gave nothing, to count it.
        """
        self._client = client
        self._turns = asyncio.Semaphore(most_at_once)
        self._most_bytes = most_bytes
        self._node_seconds = node_seconds
        self._on_silence = on_silence

    async def ask(
        self,
        requests: Sequence[Request],
        answer: type[T],
        *,
        deadline: Deadline,
        on_progress: Callable[[int], Awaitable[None]] | None = None,
        read: Callable[[bytes, type[T]], T] | None = None,
    ) -> Round[T]:
        """Send all `requests`, and return by `deadline` with whatever was answered as an `answer`.

        `on_progress` is told how many have answered or failed, each time that one has. `read` makes the answer of its
        bytes, instead of `read_answer`, and raises NoAnswer as that does.
        """
        finished = 0
        read = read or read_answer

        async def one(request: Request) -> Answered[T] | Silent:
            nonlocal finished
            outcome = await self._ask_one(request, answer, deadline, read)
            finished += 1
            if on_progress is not None:
                await on_progress(finished)
            return outcome

        outcomes = await asyncio.gather(*(one(request) for request in requests))
        return Round(
            answered=tuple(outcome for outcome in outcomes if isinstance(outcome, Answered)),
            silent=tuple(outcome for outcome in outcomes if isinstance(outcome, Silent)),
        )

    async def _ask_one(
        self, request: Request, answer: type[T], deadline: Deadline, read: Callable[[bytes, type[T]], T]
    ) -> Answered[T] | Silent:
        budget = deadline.seconds_left
        try:
            async with asyncio.timeout(budget), self._turns:
                budget = min(self._node_seconds, deadline.seconds_left)
                async with asyncio.timeout(budget):
                    return await self._fetch(request, answer, read)
        except TimeoutError:
            failure = NoAnswer(Reason.TIMED_OUT, f"no answer within {budget:.1f} s")
        except NoAnswer as error:
            failure = error
        except httpx.HTTPError as error:
            failure = explain_transport(error)
        except Exception as error:  # noqa: BLE001 - one broken agent must not cost the others' answers
            failure = NoAnswer(Reason.UNREADABLE, f"{type(error).__name__} {quoted(str(error))}")
        silent = Silent(
            request.address, Missing(source=request.address.url, reason=failure.reason, detail=str(failure))
        )
        if self._on_silence is not None:
            self._on_silence(silent)
        return silent

    async def _fetch(self, request: Request, answer: type[T], read: Callable[[bytes, type[T]], T]) -> Answered[T]:
        began = time.monotonic()
        url = request.address.url + request.path
        async with self._client.stream("GET", url, params=dict(request.parameters)) as response:
            if response.status_code == 404 and request.otherwise is not None:
                await response.aclose()
                return await self._fetch(request.otherwise, answer, read)
            if response.status_code != 200:
                raise explain_status(response.status_code, await read_body(response, most_bytes=4096, cut=True))
            body = await read_body(response, most_bytes=self._most_bytes)
        if len(body) > _BIG_BODY_BYTES:
            value = await asyncio.to_thread(read, body, answer)
        else:
            value = read(body, answer)
        return Answered(request.address, value, len(body), time.monotonic() - began)


def read_answer(body: bytes, answer: type[T]) -> T:
    """Read an agent's JSON as an `answer`. Raises NoAnswer on garbage and on a schema newer than ours."""
    try:
        value = answer.model_validate_json(body)
    except ValidationError as error:
        raise NoAnswer(Reason.UNREADABLE, f"the answer is not a {answer.__name__}: {first_mistake(error)}") from error
    version = getattr(value, "schema_version", SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        raise NoAnswer(
            Reason.UNREADABLE, f"the agent speaks schema {version}, newer than {SCHEMA_VERSION}; upgrade the collector"
        )
    return value
