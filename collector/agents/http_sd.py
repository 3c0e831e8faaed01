"""Agents from a server that speaks Prometheus' HTTP discovery, such as NetBox or a site's own inventory."""

import ssl
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from collector.agents.agent_source import SourceReading, make_client
from collector.agents.prometheus_targets import MOST_BYTES, parse_targets
from collector.gather.bounded_body import read_body
from collector.gather.failures import NoAnswer, explain_transport
from shared.errors import InvalidSettings, quoted
from shared.missing import Reason
from shared.server.tokens import TokenFile


class HttpTargets:
    """One URL. Its name leaves out the password and the query that the URL may hold."""

    def __init__(self, url: str, *, token_file: Path | None = None) -> None:
        """Raise InvalidSettings where the URL cannot be asked."""
        self._url = url
        self.name = f"http_sd {_without_secrets(url)}"
        self._tokens = None if token_file is None else TokenFile(token_file)
        self._tls = ssl.create_default_context() if url.startswith("https:") else None

    async def read(self) -> SourceReading:
        """Ask for the list. Raises NoAnswer, InvalidInput."""
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        tokens = () if self._tokens is None else self._tokens.tokens()
        if tokens:
            headers["Authorization"] = "Bearer " + tokens[0].decode("latin-1")
        body = await fetch(self._url, headers=headers, tls=self._tls, most_bytes=MOST_BYTES)
        return SourceReading(parse_targets(body, source=self.name))


async def fetch(url: str, *, headers: dict[str, str], tls: ssl.SSLContext | None, most_bytes: int) -> bytes:
    """Return the bounded body of a 200. Raises NoAnswer; the caller sets the deadline."""
    try:
        async with (
            make_client(headers, tls) as client,
            client.stream("GET", url) as response,
        ):
            if response.status_code != 200:
                raise _explain(response.status_code)
            return await read_body(response, most_bytes=most_bytes)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        if isinstance(error, httpx.InvalidURL):
            raise NoAnswer(Reason.UNREADABLE, f"it is not a URL: {error}") from error
        raise explain_transport(error) from error


def _explain(status: int) -> NoAnswer:
    reason = Reason.NOT_PERMITTED if status in (401, 403) else Reason.UNREADABLE
    return NoAnswer(reason, f"it answered HTTP {status}")


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https"):
        raise InvalidSettings(f"{quoted(url)} is not the URL of a list of agents", advice="write http://HOST:PORT/PATH")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{parts.path}"
