"""Ask many agents at once under one deadline, and keep what came.

An agent that does not answer costs one `Unanswered` with a reason, never the others' answers. Nothing that an
agent sends is trusted: bodies are bounded before and after decompression, and validated as bytes.

An agent is asked again, on a connection of its own,

1. while its first try is under way, where nearly all others have answered: some of a round, never many,
2. at once, where the connection or the answer broke off: kept connections may be to an agent that was restarted,
3. when there is a turn, where it had too little time to connect, or gave way to others (see `slots.py`),

as long as there is time, and only questions that cost a job next to nothing. Answers that the collector was
too busy to read do not count against agents (see `loop_lag.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import httpx
from pydantic import ValidationError

from collector.gather.bounded_body import MOST_BODY_BYTES
from collector.gather.failures import Again, NoAnswer
from collector.gather.fanout.connection_pools import Pools
from collector.gather.fanout.dns_lookups import LookingUp
from collector.gather.fanout.hedging import LateAgents, second_tries
from collector.gather.fanout.one_agent import Inquiry, Means
from collector.gather.fanout.slots import Slots
from collector.gather.fanout.values import Answered, Request, RequestDeadline, RoundOutcome, Silent, T
from shared import SCHEMA_VERSION
from shared.errors import quoted
from shared.json_bounds import TooCostly, check_model_json
from shared.missing import Missing, Reason
from shared.mistakes import first_mistake
from shared.server.tls import ClientTls

MOST_AT_ONCE = 256
"""Requests in flight. The rest wait their turn, under the same deadline."""

MOST_MEMORY = 768 * 1024 * 1024
"""For one answer while it is read: eight full records of 20,000 operations. Larger ones are read one at a time."""

NODE_SECONDS = 15.0
"""For one agent's answer, unless the whole is due sooner. An agent gives up on a look of its own after 10 s."""


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
    trusted = partial(httpx.create_ssl_context, trust_env=False) if tls is None else tls.context
    return httpx.AsyncClient(
        headers=headers,
        auth=auth,
        event_hooks={} if tls is None else {"request": [partial(_renew, tls)]},
        transport=transport or LookingUp(Pools(trusted=trusted, most_idle=most_at_once)),
        mounts=mounts,
        timeout=None,  # every request runs under a deadline of ours, which is for the whole of it
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
        on_again: Callable[[Again], None] | None = None,
        on_second_answer: Callable[[Again], None] | None = None,
    ) -> None:
        """`node_seconds` bounds one agent: the time that it holds turns, not that in which it waits for them.

        For metrics: `on_silence` is called for each agent that gave nothing, `on_again` with why an agent is asked
        again, `on_second_answer` with why it was when that produced an answer.
        """
        self._means = Means(client, Slots(most_at_once), node_seconds, most_bytes)
        self._on_silence = on_silence or _ignore
        self._on_again = on_again or _ignore
        self._on_second_answer = on_second_answer or _ignore

    async def ask(
        self,
        requests: Sequence[Request],
        answer: type[T],
        *,
        deadline: RequestDeadline,
        on_progress: Callable[[int], Awaitable[None]] | None = None,
        read: Callable[[bytes, type[T]], T] | None = None,
    ) -> RoundOutcome[T]:
        """Send all `requests`, and return by `deadline` with whatever was answered as an `answer`.

        `on_progress` is called with the number that have answered or failed, each time one has. `read` parses an answer
        in place of `read_answer`, and raises NoAnswer as that does.
        """
        finished, pace = 0, LateAgents(len(requests))
        made = partial(_made, read or read_answer, answer)
        inquiries = [Inquiry(request, _due(request, deadline), self._means, made) for request in requests]

        async def one(inquiry: Inquiry[T]) -> Answered[T] | Silent:
            nonlocal finished
            outcome = await self._ask_one(inquiry)
            finished += 1
            pace.finished(outcome.took_seconds if isinstance(outcome, Answered) else None)
            if on_progress is not None:
                await on_progress(finished)
            return outcome

        with self._means.lag.measured():
            async with second_tries(inquiries, pace, self._on_again):
                outcomes = await asyncio.gather(*(one(inquiry) for inquiry in inquiries))
        return RoundOutcome(
            answered=tuple(outcome for outcome in outcomes if isinstance(outcome, Answered)),
            silent=tuple(outcome for outcome in outcomes if isinstance(outcome, Silent)),
        )

    async def _ask_one(self, inquiry: Inquiry[T]) -> Answered[T] | Silent:
        try:
            answered = await inquiry.pursue(self._on_again)
            if inquiry.asked_again is not None:
                self._on_second_answer(inquiry.asked_again)
            return answered
        except NoAnswer as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - one broken agent must not cost the others' answers
            failure = NoAnswer(Reason.UNREADABLE, f"{type(error).__name__} {quoted(str(error))}")
        address = inquiry.request.address
        silent = Silent(address, Missing(source=address.url, reason=failure.reason, detail=str(failure)))
        self._on_silence(silent)
        return silent


def _due(request: Request, deadline: RequestDeadline) -> RequestDeadline:
    return deadline if request.patience_seconds is None else deadline.earlier(request.patience_seconds)


def _made(read: Callable[[bytes, type[T]], T], answer: type[T], body: bytes) -> T:
    return read(body, answer)


def _ignore(_: object) -> None:
    """Count nothing."""


def read_answer(body: bytes, answer: type[T]) -> T:
    """Read an agent's JSON as an `answer`. Raises NoAnswer on garbage and on a schema newer than ours."""
    try:
        check_model_json(body, most_bytes=MOST_MEMORY)
        value = answer.model_validate_json(body)
    except TooCostly as error:
        raise NoAnswer(Reason.REFUSED, f"the answer is {error}") from error
    except ValidationError as error:
        raise NoAnswer(Reason.UNREADABLE, f"the answer is not a {answer.__name__}: {first_mistake(error)}") from error
    version = getattr(value, "schema_version", SCHEMA_VERSION)
    if version > SCHEMA_VERSION:
        raise NoAnswer(
            Reason.UNREADABLE, f"the agent speaks schema {version}, newer than {SCHEMA_VERSION}; upgrade the collector"
        )
    return value
