"""The collector's REST API as the tools ask it: in this process on behalf of a caller, or over the network."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from collector.concurrency.threads import run_in_thread
from collector.keep.run_ledger import RunState
from collector.question import Step
from shared.answer.diagnosis import Diagnosis
from shared.answer.problem import Problem, parse_answer
from shared.errors import NotFound, UnhangError, Unreachable
from shared.value import Value, whole

V = TypeVar("V", bound=Value)

Tell = Callable[[Step], Awaitable[None]]
"""What to call with each new step of a diagnosis."""

_FIRST_PAUSE_SECONDS = 0.2
_MOST_PAUSE_SECONDS = 3.0
"""Between two questions whether a diagnosis is ready. Each is a line of the audit log."""

_ADVICE = "check the address and that `unhang collector` runs there"


class Rest:
    """One caller's view of the API. All methods raise UnhangError with what to do about it."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        """`client` knows the base URL and the credentials."""
        self._client = client

    async def get(self, path: str, model: type[V], **parameters: str | int | None) -> V:
        """Return what `path` answers; parameters that are None are left out."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return await _read(await self._send("GET", path, params=given), model)

    async def diagnose(self, job: str, *, wait_seconds: float, tell: Tell) -> Diagnosis | RunState:
        """Start a diagnosis, or join the one under way, and wait for it; its state if it is not ready by then."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        pause = _FIRST_PAUSE_SECONDS
        answer = await self._send("POST", f"/v1/jobs/{segment(job)}/diagnoses")
        while answer.status_code == HTTPStatus.ACCEPTED:
            state = await _read(answer, RunState)
            await tell(state.step)
            left = until - loop.time()
            if left <= 0:
                return state
            await asyncio.sleep(min(left, pause))
            pause = min(pause * 1.5, _MOST_PAUSE_SECONDS)
            answer = await self._send("GET", f"/v1/diagnoses/{segment(state.id)}")
        return await _read(answer, Diagnosis)

    async def fetch(self, id: str) -> Diagnosis | RunState:
        """Return a diagnosis, or how far it is."""
        answer = await self._send("GET", f"/v1/diagnoses/{segment(id)}")
        return await _read(answer, RunState if answer.status_code == HTTPStatus.ACCEPTED else Diagnosis)

    async def _send(self, method: str, path: str, *, params: dict[str, str | int] | None = None) -> httpx.Response:
        try:
            answer = await self._client.request(method, path, params=params, headers={"Accept": "application/json"})
        except httpx.TimeoutException as error:
            raise Unreachable("the collector does not answer in time", advice=_ADVICE) from error
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise Unreachable(f"the collector cannot be asked: {why}", advice=_ADVICE) from error
        if answer.status_code not in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
            raise _refusal(answer)
        return answer


def segment(text: str) -> str:
    """Return `text` as one segment of a path."""
    return quote(whole(text), safe="")


async def _read(answer: httpx.Response, model: type[V]) -> V:
    return await run_in_thread(partial(parse_answer, answer.url.host, answer.content, model))


def _refusal(answer: httpx.Response) -> UnhangError:
    try:
        problem = Problem.model_validate_json(answer.content)
    except ValidationError:
        return Unreachable(f"{answer.url.host} answered HTTP {answer.status_code}", advice=_ADVICE)
    kind = NotFound if answer.status_code == HTTPStatus.NOT_FOUND else UnhangError
    return kind(problem.detail or problem.title, advice=problem.advice)
