"""A collector, asked over HTTP."""

import errno
import re
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from cli.sources.bundle import made, write_whole
from cli.sources.job_source import Aspect, DeepChoice, JobChoice, JobNames, JudgedJob, V, Wanted
from collector.align.expected import Expected
from collector.files.read_directory import read_recorded
from collector.keep.kept import Kept
from collector.question import Progress, Stage, Step
from shared.answer.diagnosis import Diagnosis
from shared.answer.problem import Problem, parse_answer
from shared.errors import InvalidInput, InvalidSettings, NotFound, NotPermitted, UnhangError, Unreachable, quoted
from shared.rank_sets import fold
from shared.server.tls import HUNG_UP, ClientTls, TlsFiles, explain_tls
from shared.server.tokens import TokenFile
from shared.shell_commands import listed
from shared.value import whole, whole_texts
from shared.wire.debug_output import DeepLook

T = TypeVar("T", bound=BaseModel)

_VIEW_SECONDS = 60.0
_DEEP_SECONDS = 90.0
_DIAGNOSIS_SECONDS = 180.0
"""How long a verdict is waited for where no time-out is given: the collector has a deadline and patience of its own."""

_CONNECT_SECONDS = 5.0
_GRACE_SECONDS = 5.0
_WAIT_AT_ONCE = 55.0
"""Longest wait inside one request: proxies like to cut silent connections after a minute."""
_ASK_AGAIN_SECONDS = 0.5

NO_TLS = TlsFiles()
"""Believe what the machine believes, and show nothing."""

_ERRORS: Mapping[int, type[UnhangError]] = {400: InvalidInput, 401: NotPermitted, 403: NotPermitted, 404: NotFound}


class _Pending(BaseModel):
    """What is read of a verdict that is still being made."""

    step: Step = Step(stage=Stage.FINDING)


class Remote:
    """The collector at one URL."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    @classmethod
    def at(cls, url: str, token_file: Path | None, tls: TlsFiles = NO_TLS) -> "Remote":
        """Return the collector there. Raises InvalidSettings where URL, token file or TLS files cannot be used."""
        return cls(httpx.Client(**client_options(url, token_file, tls)))

    def jobs(self) -> JobNames:
        """Return the jobs that the collector's agents see."""
        return _read(self._get("/v1/jobs"), JobNames)

    def diagnose(self, wanted: Wanted, progress: Progress | None) -> JudgedJob:
        """Have a diagnosis made, and wait for it."""
        patience = wanted.usual_patience if wanted.patience_seconds is None else wanted.patience_seconds
        seconds = wanted.deadline_seconds + patience
        if wanted.timeout_seconds is None:
            seconds = max(_DIAGNOSIS_SECONDS, seconds)
        deadline = time.monotonic() + seconds + _GRACE_SECONDS
        path = f"/v1/jobs/{segment(self._choose(wanted.job))}/diagnoses"
        wait = _WAIT_AT_ONCE if progress is None else 0.0
        answer = self._waiting("POST", path, min(deadline, time.monotonic() + wait), json=wanted.given() or None)
        while answer.status_code == 202:
            if progress is not None:
                progress(_read(answer, _Pending).step)
            location = answer.headers.get("Location", "")
            if time.monotonic() >= deadline or not location.startswith("/v1/"):
                raise Unreachable(
                    "the collector has not reached a verdict in time", advice=f"ask it again later: GET {location}"
                )
            time.sleep(_ASK_AGAIN_SECONDS)
            answer = self._waiting("GET", location, deadline)
        diagnosis = _read(answer, Diagnosis)
        return JudgedJob(diagnosis, partial(self._save, diagnosis), partial(self._kept, diagnosis))

    def view(self, aspect: Aspect[V], choice: JobChoice) -> V:
        """Have the collector look once, and return one aspect."""
        parameters = dict(aspect.parameters)
        if choice.native:
            parameters["native"] = "true"
        if choice.ranks is not None:
            parameters["ranks"] = fold(choice.ranks)
        path = f"/v1/jobs/{segment(self._choose(choice.job))}/{aspect.path}"
        return _read(self._get(path, params=parameters), aspect.model)

    def look_closely(self, choice: DeepChoice) -> DeepLook:
        """Have the collector's agent run a debugger or strace on one rank."""
        path = f"/v1/jobs/{segment(self._choose(choice.job))}/ranks/{choice.rank}/deep"
        parameters = {"how": choice.how.value, "seconds": f"{choice.seconds:g}"}
        if choice.child is not None:
            parameters["child"] = str(choice.child)
        return _read(self._get(path, params=parameters, timeout=_DEEP_SECONDS), DeepLook)

    def fetch(self, path: str, model: type[T], parameters: Sequence[tuple[str, str]]) -> T:
        """Return what the collector has there."""
        return _read(self._get(path, params=list(parameters)), model)

    def post(self, path: str, model: type[T], body: Mapping[str, object]) -> T:
        """Send something there, and return the answer."""
        return _read(self._send("POST", path, json=dict(body)), model)

    def delete(self, path: str) -> None:
        """Delete what is there."""
        self._send("DELETE", path)

    def follow(self, path: str, *, last: str | None, seconds: int) -> Iterator[tuple[str, str]]:
        """Iterate over number and data of the events about incidents that the collector sends, for some seconds."""
        headers = {} if last is None else {"Last-Event-ID": last}
        ask = self._client.stream("GET", path, params={"seconds": str(seconds)}, headers=headers)
        with self._explained(), ask as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refusal(answer)
            number = ""
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                number = value if name == "id" else number
                if name == "data" and number:
                    yield number, value
                    number = ""

    def _choose(self, job: str | None) -> str:
        """Return the job asked for, or the only one there is."""
        if job is not None:
            return job
        names = [summary.name for summary in self.jobs().jobs]
        if len(names) == 1:
            return names[0]
        if names:
            raise InvalidInput(f"{len(names)} jobs are there: {listed(names)}", advice="say which of them to look at")
        raise NotFound("the collector's agents see no job", advice="`unhang jobs` lists the agents that do not answer")

    def _save(self, diagnosis: Diagnosis, directory: Path) -> Path:
        answer = self._get(f"/v1/diagnoses/{segment(diagnosis.id)}/bundle")
        name = f"unhang-{''.join(c for c in diagnosis.id if c.isalnum() or c == '-')[:64]}.tar.gz"
        return write_whole(made(directory) / name, lambda to: to.write(answer.content))

    def _kept(self, diagnosis: Diagnosis) -> Kept:
        """Fetch what the diagnosis rests on; where the collector's store did not take it, the diagnosis alone."""
        try:
            with tempfile.TemporaryDirectory(prefix="unhang-") as directory:
                recorded = read_recorded(self._save(diagnosis, Path(directory)))
        except NotFound:
            return Kept(diagnosis=diagnosis, expected=Expected(job=diagnosis.job), snapshots=())
        expected = Expected(job=diagnosis.job) if recorded.manifest is None else recorded.manifest.expected
        return Kept(diagnosis=diagnosis, expected=expected, snapshots=recorded.snapshots)

    def _waiting(self, method: str, path: str, deadline: float, **more: Any) -> httpx.Response:
        wait = max(0.0, min(_WAIT_AT_ONCE, deadline - time.monotonic()))
        parameters = {"wait": f"{wait:.1f}"} if method == "POST" else {}
        return self._send(method, path, params=parameters, timeout=wait + _VIEW_SECONDS, **more)

    def _get(self, path: str, **more: Any) -> httpx.Response:
        return self._send("GET", path, **more)

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        with self._explained():
            answer = self._client.request(method, path, **whole_texts(more))
        if answer.status_code not in (200, 202):
            raise _refusal(answer)
        return answer

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in our words why the collector could not be asked."""
        try:
            yield
        except httpx.TimeoutException as error:
            raise Unreachable(f"the collector at {self._url} does not answer in time", advice=_ADVICE) from error
        except httpx.HTTPError as error:
            over_tls = self._client.base_url.scheme == "https"
            raise Unreachable(f"the collector at {self._url} {_why(error, over_tls)}", advice=_ADVICE) from error

    @property
    def _url(self) -> str:
        return str(self._client.base_url).rstrip("/")


def client_options(url: str, token_file: Path | None, tls: TlsFiles = NO_TLS) -> dict[str, Any]:
    """Return what httpx needs to ask the collector there. Raises as `Remote.at` does.

    Without TLS nothing is to be verified, and authorities take longer to read than most answers.
    """
    base_url = _base_url(url)
    headers = {"Accept": "application/json"}
    if token_file is not None:
        headers["Authorization"] = f"Bearer {_token(token_file)}"
    return {
        "base_url": base_url,
        "headers": headers,
        "timeout": httpx.Timeout(_VIEW_SECONDS, connect=_CONNECT_SECONDS),
        "verify": ClientTls(tls).context() if tls.named else base_url.startswith("https:"),
        "trust_env": False,
    }


_HOST = re.compile(r"[\w.:%-]+")
_ADVICE = "check the address and that `unhang collector` runs there; without --collector, this machine is examined"


def _base_url(text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(_HOST.fullmatch(parts.hostname or "")) and not parts.query
        _ = parts.port
        return str(httpx.URL(url)).rstrip("/") if usable else _refuse(text)
    except (ValueError, httpx.InvalidURL):
        return _refuse(text)


def _refuse(text: str) -> str:
    raise InvalidSettings(f"{quoted(text)} is not a collector's URL", advice="write it as http://head:8470")


def _token(file: Path) -> str:
    tokens = TokenFile(file).tokens()
    if not tokens:
        raise InvalidSettings(f"token file {file} contains no token", advice="write the collector's token into it")
    try:
        return tokens[0].decode("ascii")
    except UnicodeDecodeError as error:
        raise InvalidSettings(f"token file {file} contains no usable token", advice="tokens are ASCII") from error


def segment(text: str) -> str:
    """Return text as one segment of a path."""
    return quote(whole(text), safe="")


def _read(answer: httpx.Response, model: type[T]) -> T:
    return parse_answer(answer.url.host, answer.content, model)


def _refusal(answer: httpx.Response) -> UnhangError:
    kind = _ERRORS.get(answer.status_code, UnhangError)
    try:
        problem = Problem.model_validate_json(answer.content)
    except ValidationError:
        said = f": {quoted(answer.content)}" if answer.content else ""
        return Unreachable(f"{answer.url.host} answered HTTP {answer.status_code}{said}", advice=_ADVICE)
    advice = problem.advice
    if kind is NotPermitted and not (advice and answer.status_code == HTTPStatus.FORBIDDEN):
        advice = "give the collector's token with --token-file FILE"  # with 403 the one that it has may do less
    return kind(problem.detail or problem.title, advice=advice)


def _why(error: httpx.HTTPError, over_tls: bool) -> str:
    cause: BaseException | None = error
    for _ in range(16):
        if isinstance(cause, ssl.SSLError):
            return f"cannot be reached over TLS: {explain_tls(cause)}"
        if isinstance(cause, OSError) and cause.errno is not None:
            refused = cause.errno == errno.ECONNREFUSED
            return "refuses the connection" if refused else f"cannot be reached: {cause.strerror}"
        cause = None if cause is None else cause.__cause__ or cause.__context__
    if over_tls and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return HUNG_UP
    if isinstance(error, httpx.RemoteProtocolError):
        return "does not speak HTTP, or broke off"
    return f"cannot be reached: {error}"
