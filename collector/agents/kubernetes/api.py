"""What we ask Kubernetes' API server: lists of pods, and watches that report what changes after a list.

The protocol: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes.
The token of the service account is read before each question, because Kubernetes renews it.
"""

import asyncio
import random
import socket
import ssl
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

import httpx

from collector.agents.agent_source import MOST_SIGHTINGS, PodPlace, make_client
from collector.agents.kubernetes.pods import Change, Expired, PodList, parse_change, parse_pods
from collector.concurrency.threads import OwnThread
from collector.gather.bounded_body import read_body
from collector.gather.failures import NoAnswer, explain_transport
from shared.errors import InvalidSettings
from shared.missing import Reason

WATCH_SECONDS = 240.0
"""Requested length of a watch. The server ends it then; if it does not, we do."""

_PAGE = 500
_MOST_PAGE_BYTES = 67_108_864
_BIG_PAGE_BYTES = 1_048_576
"""Larger pages are parsed in a thread, so that they block nothing."""
_MOST_LINE_BYTES = 8_388_608
"""Of one change. The server itself takes no object of more than some two MiB."""
_MOST_TOKEN_BYTES = 65_536
_RESTARTS = 2
"""Of a list whose later pages the server has forgotten while we read the first ones."""

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""A watch is silent while nothing changes: the kernel asks whether the other side is still there."""


class PodScope(NamedTuple):
    """Which pods: those of a namespace, `*` for all, with some labels."""

    namespace: str
    selector: str = ""


class PodApi:
    """One API server, asked as one service account."""

    def __init__(
        self, api: str, account: Path, *, deadline_seconds: float = 5.0, watch_seconds: float = WATCH_SECONDS
    ) -> None:
        """Raises InvalidSettings. `deadline_seconds` is for one page of a list, and for a watch to begin."""
        self._api = api.rstrip("/")
        self._account = account
        self._deadline_seconds = deadline_seconds
        self._watch_seconds = watch_seconds
        self._tls = _tls(account / "ca.crt") if self._api.startswith("https:") else None
        self._thread = OwnThread("kubernetes-token")
        self._turn = asyncio.Lock()

    async def pods(self, scope: PodScope) -> tuple[list[PodPlace], str]:
        """Return the pods, and the version that a watch goes on from. Raises NoAnswer."""
        for left in reversed(range(_RESTARTS + 1)):
            try:
                return await self._list(scope)
            except Expired:
                if left == 0:
                    raise
        raise AssertionError

    async def watch(self, scope: PodScope, version: str, take: Callable[[Change], None]) -> None:
        """Hand on what changes after `version`, until the server ends it. Raises Expired and NoAnswer.

        What has been handed on stays valid: the next watch goes on from the version of the last change.
        """
        asked = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(self._watch_seconds * random.uniform(0.8, 1.0)))),
        }
        due_seconds = self._deadline_seconds
        lines = _Lines()
        try:
            headers = await self._headers(encoding="identity")
            async with (
                asyncio.timeout(due_seconds) as due,
                self._client(headers) as client,
                client.stream("GET", self._url(scope, asked)) as response,
            ):
                await _check(response)
                due_seconds = self._watch_seconds + self._deadline_seconds
                due.reschedule(asyncio.get_running_loop().time() + due_seconds)
                async for part in response.aiter_raw():
                    for line in lines.split(part):
                        take(parse_change(line))
        except TimeoutError as error:
            raise NoAnswer(Reason.TIMED_OUT, f"a watch sent nothing within {due_seconds:.1f} s") from error
        except httpx.HTTPError as error:
            raise explain_transport(error) from error
        if lines.rest:
            raise NoAnswer(Reason.UNREADABLE, "a watch broke off within a line")

    async def _list(self, scope: PodScope) -> tuple[list[PodPlace], str]:
        asked = {"limit": str(_PAGE)}
        found: list[PodPlace] = []
        while True:
            page = await self._page(self._url(scope, asked))
            found.extend(pod.place() for pod in page.items)
            if len(found) > MOST_SIGHTINGS:
                raise NoAnswer(Reason.REFUSED, f"there are more than {MOST_SIGHTINGS} pods")
            if not page.metadata.continue_ or not page.items:
                return found, page.metadata.resource_version
            asked["continue"] = page.metadata.continue_

    async def _page(self, url: str) -> PodList:
        try:
            headers = await self._headers(encoding="gzip")
            async with (
                asyncio.timeout(self._deadline_seconds),
                self._client(headers) as client,
                client.stream("GET", url) as response,
            ):
                await _check(response)
                body = await read_body(response, most_bytes=_MOST_PAGE_BYTES)
        except TimeoutError as error:
            raise NoAnswer(Reason.TIMED_OUT, f"no list within {self._deadline_seconds:.1f} s") from error
        except httpx.HTTPError as error:
            raise explain_transport(error) from error
        return await asyncio.to_thread(parse_pods, body) if len(body) > _BIG_PAGE_BYTES else parse_pods(body)

    def _url(self, scope: PodScope, asked: dict[str, str]) -> str:
        within = "" if scope.namespace == "*" else f"/namespaces/{quote(scope.namespace, safe='')}"
        labels = {"labelSelector": scope.selector} if scope.selector else {}
        return f"{self._api}/api/v1{within}/pods?{urlencode({**asked, **labels})}"

    def _client(self, headers: dict[str, str]) -> httpx.AsyncClient:
        return make_client(headers, self._tls, socket_options=_KEEPALIVE)

    async def _headers(self, *, encoding: str) -> dict[str, str]:
        async with asyncio.timeout(self._deadline_seconds), self._turn:
            token = await self._thread.run(self._token)
        return {"Accept": "application/json", "Accept-Encoding": encoding, "Authorization": f"Bearer {token}"}

    def _token(self) -> str:
        try:
            with (self._account / "token").open("rb") as opened:
                token = opened.read(_MOST_TOKEN_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise NoAnswer(Reason.NOT_PERMITTED, f"the token of the service account cannot be read: {why}") from error
        if not token.isprintable():
            raise NoAnswer(Reason.UNREADABLE, "the token of the service account is not a token")
        return token


class _Lines:
    """Cuts a stream into lines, and holds no more of one that never ends than is allowed."""

    def __init__(self) -> None:
        self.rest = bytearray()

    def split(self, part: bytes) -> Iterator[bytes]:
        """Yield the lines that are whole. Raises NoAnswer."""
        *whole, rest = part.split(b"\n")
        for line in whole:
            self.rest += line
            found, self.rest = bytes(self.rest), bytearray()
            if found.strip():
                yield found
        self.rest += rest
        if len(self.rest) > _MOST_LINE_BYTES:
            raise NoAnswer(Reason.REFUSED, f"one change has more than {_MOST_LINE_BYTES} bytes")


async def _check(response: httpx.Response) -> None:
    status = response.status_code
    if status == HTTPStatus.OK:
        return
    if status == HTTPStatus.GONE:
        raise Expired(Reason.GONE, "the API server answered HTTP 410: it no longer knows that version")
    reason = Reason.NOT_PERMITTED if status in (401, 403) else Reason.UNREADABLE
    raise NoAnswer(reason, f"the API server answered HTTP {status}")


def _tls(authority: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(authority) if authority.exists() else None)
    except OSError as error:
        raise InvalidSettings(f"the API server's CA in {authority} cannot be used") from error
