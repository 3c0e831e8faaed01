"""The collector's REST API as the tools ask it: in this process on behalf of a caller, or over the network."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from collector.concurrency.threads import run_in_thread
from collector.keep.run_ledger import RunState
from collector.question import Step
from collector.show.mcp.pages import Document
from shared.answer.problem import Problem, parse_answer
from shared.errors import NotFound, UnhangError, Unreachable, quoted
from shared.value import whole, whole_texts

OnStep = Callable[[Step], Awaitable[None]]
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

    async def get(self, path: str, *keys: str, **parameters: str | int | None) -> Document:
        """Return what `path` answers, an object with these keys; parameters that are None are left out."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return await _read(await self._send("GET", path, params=given), *keys)

    async def diagnose(self, job: str, *, wait_seconds: float, on_step: OnStep) -> Document | RunState:
        """Start a diagnosis, or join the one under way, and wait for it; its state if it is not ready by then."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        pause = _FIRST_PAUSE_SECONDS
        found = await self._diagnosis("POST", f"/v1/jobs/{segment(job)}/diagnoses")
        while isinstance(found, RunState):
            await on_step(found.step)
            left = until - loop.time()
            if left <= 0:
                break
            await asyncio.sleep(min(left, pause))
            pause = min(pause * 1.5, _MOST_PAUSE_SECONDS)
            found = await self.fetch(found.id)
        return found

    async def fetch(self, id: str) -> Document | RunState:
        """Return a diagnosis, or how far it is."""
        return await self._diagnosis("GET", f"/v1/diagnoses/{segment(id)}")

    async def _diagnosis(self, method: str, path: str) -> Document | RunState:
        answer = await self._send(method, path)
        if answer.status_code == HTTPStatus.ACCEPTED:
            return parse_answer(answer.url.host, answer.content, RunState)
        return await _read(answer, "id", "verdict")

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


async def _read(answer: httpx.Response, *keys: str) -> Document:
    try:
        found: Any = whole_texts(await run_in_thread(json.loads, answer.content))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not found.keys() >= {*keys}:
        raise Unreachable(
            f"what {answer.url.host} answers is not an answer of the API: {quoted(answer.content)}",
            advice="is it an unhang collector of this version?",
        )
    return found


def _refusal(answer: httpx.Response) -> UnhangError:
    try:
        problem = Problem.model_validate_json(answer.content)
    except ValidationError:
        return Unreachable(f"{answer.url.host} answered HTTP {answer.status_code}", advice=_ADVICE)
    kind = NotFound if answer.status_code == HTTPStatus.NOT_FOUND else UnhangError
    return kind(problem.detail or problem.title, advice=problem.advice)
