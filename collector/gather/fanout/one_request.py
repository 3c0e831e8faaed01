"""One question over one connection, and how far it came: that tells why it came no further."""

from collections.abc import Mapping, Sequence

import httpx

from collector.gather.bounded_body import read_body
from collector.gather.failures import NoAnswer, explain_status, explain_transport, no_address, no_connection
from collector.gather.fanout.dns_lookups import NoNameServer
from shared.missing import Reason

Parameters = Mapping[str, str | int | Sequence[str | int]]
"""Query parameters of one request."""

_MOST_EXCUSE_BYTES = 4096
"""Of the body of an answer other than 200 that is read."""

_CONNECTING = frozenset(
    f"connection.{what}.{how}" for what in ("connect_tcp", "start_tls") for how in ("started", "complete")
)


class Exchange:
    """One GET and its answer."""

    def __init__(self, client: httpx.AsyncClient, *, most_bytes: int) -> None:
        self._client = client
        self._most_bytes = most_bytes
        self._came_bytes: int | None = None
        self.status: int | None = None
        self.is_connecting = False

    async def fetch(self, url: str, parameters: Parameters, *, connect_seconds: float, fresh: bool) -> bytes:
        """Return the body of the answer. Raises NoAnswer.

        `fresh`: not for a connection to be kept. Connections that are kept may have died without a sign.
        """
        request = self._request(url, parameters, connect_seconds=connect_seconds, fresh=fresh)
        try:
            response = await self._client.send(request, stream=True)
            try:
                return await self._read(response)
            finally:
                await response.aclose()
        except NoNameServer as error:
            raise no_address(connect_seconds) from error
        except httpx.ConnectTimeout as error:
            raise no_connection(connect_seconds) from error
        except httpx.HTTPError as error:
            raise explain_transport(error) from error

    def too_late(self, seconds: float) -> NoAnswer:
        """Return why there is no answer, where time ended it after `seconds`."""
        if self._came_bytes is None:
            return NoAnswer(Reason.TIMED_OUT, f"no answer within {seconds:.1f} s")
        return NoAnswer(
            Reason.TIMED_OUT,
            f"the answer was not complete within {seconds:.1f} s: {self._came_bytes} bytes of it arrived",
        )

    def _request(self, url: str, parameters: Parameters, *, connect_seconds: float, fresh: bool) -> httpx.Request:
        """Build it by hand: the client's own way merges what is empty here, and takes several times as long."""
        request = httpx.Request(
            "GET",
            httpx.URL(url, params=dict(parameters)) if parameters else url,
            headers=self._client.headers,
            extensions={"timeout": {"connect": connect_seconds}, "trace": self._trace},
        )
        if fresh:
            request.headers["Connection"] = "close"
        return request

    async def _read(self, response: httpx.Response) -> bytes:
        self._note(0)
        self.status = response.status_code
        if response.status_code != 200:
            said = await read_body(response, most_bytes=_MOST_EXCUSE_BYTES, cut=True, tell=self._note)
            raise explain_status(response.status_code, said)
        return await read_body(response, most_bytes=self._most_bytes, tell=self._note)

    async def _trace(self, event: str, _: object) -> None:
        """Follow httpcore: whether a connection is being made shows who is to be blamed for the time it takes."""
        if event in _CONNECTING:
            self.is_connecting = event.endswith(".started")

    def _note(self, came_bytes: int) -> None:
        self._came_bytes = came_bytes
