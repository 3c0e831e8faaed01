"""A collector as the source: what it answers, and every way in which it may not."""

import errno
import io
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from cli.sources.aspects import CHECKS, TREE, logs
from cli.sources.job_source import Aspect, JobChoice, Wanted
from cli.sources.remote import Remote, client_options
from collector.align.expected import Expected
from collector.keep.bundle import write_bundle
from collector.keep.kept import Kept
from collector.show.views import View
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from shared.errors import InvalidInput, InvalidSettings, NotFound, NotPermitted, UnhangError, Unreachable
from tests.build.jobs.four_ranks import looks_without
from tests.build.jobs.simulated import LOADER, USER, Seen
from tests.build.processes.commands import unhang

Handler = Callable[[httpx.Request], httpx.Response]
DIAGNOSIS = Diagnosis(id="0195a1c8", job="a/b c", verdict=Verdict.HUNG, headline="Hung: x")


REFUSED = httpx.ConnectError("all attempts failed")
REFUSED.__cause__ = OSError(errno.ECONNREFUSED, "deep in the chain of causes")


def remote(handler: Handler) -> Remote:
    """Return a collector whose answers a function makes."""
    return Remote(httpx.Client(base_url="http://head:8470", transport=httpx.MockTransport(handler)))


def problem(status: int, detail: str, advice: str = "") -> httpx.Response:
    """Return a problem document as our services send them."""
    body = {"type": "urn:unhang:problem:x", "title": "X", "status": status, "detail": detail, "advice": advice}
    return httpx.Response(status, json=body)


def test_diagnosis_is_waited_for() -> None:
    """A 202 is followed until the verdict is there; the job's name is one path segment; options go along."""
    asked: list[tuple[str, str, bytes]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.raw_path.decode(), request.content))
        if len(asked) < 3:
            return httpx.Response(202, json={}, headers={"Location": "/v1/diagnoses/0195a1c8"})
        return httpx.Response(200, text=DIAGNOSIS.model_dump_json(by_alias=True))

    verdict = remote(answer).diagnose(Wanted("a/b c", looks=1), None)
    assert verdict.diagnosis == DIAGNOSIS
    assert asked[0][1].startswith("/v1/jobs/a%2Fb%20c/diagnoses?wait=")
    assert json.loads(asked[0][2]) == {"looks": 1}
    assert [method for method, _, _ in asked] == ["POST", "GET", "GET"]


def test_diagnosis_that_does_not_come() -> None:
    """The wait ends, and it is said how to go on."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(202, json={}, headers={"Location": "http://evil/"})

    with pytest.raises(Unreachable, match="in time"):
        remote(answer).diagnose(Wanted("a", timeout_seconds=0.1), None)


def test_bundle_is_saved_under_a_safe_name(tmp_path: Path) -> None:
    """An id cannot lead out of the directory."""
    evil = DIAGNOSIS.model_copy(update={"id": "../../x"})

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"GZ" if request.method == "GET" else evil.model_dump_json().encode())

    verdict = remote(answer).diagnose(Wanted("a"), None)
    assert verdict.save(tmp_path) == tmp_path / "unhang-x.tar.gz"
    assert (tmp_path / "unhang-x.tar.gz").read_bytes() == b"GZ"


def test_what_a_page_shows_is_fetched() -> None:
    """The bundle is read like any other; where the store did not take the diagnosis, its verdict alone is shown."""
    expected = Expected(job="a")
    looks = tuple(looks_without({2: Seen((USER, LOADER))}))
    kept = Kept(diagnosis=DIAGNOSIS.model_copy(update={"job": "a"}), expected=expected, snapshots=looks)
    bundle = io.BytesIO()
    write_bundle(kept, bundle)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, content=bundle.getvalue())
        return httpx.Response(200, json=json.loads(kept.diagnosis.model_dump_json(by_alias=True)))

    fetched = remote(answer).diagnose(Wanted("a"), None).kept()
    assert (fetched.diagnosis, fetched.expected.job) == (kept.diagnosis, "a")
    assert [len(look.ranks) for look in fetched.snapshots] == [4, 4]

    def forgetful(request: httpx.Request) -> httpx.Response:
        return problem(404, "there is no diagnosis") if request.method == "GET" else answer(request)

    alone = remote(forgetful).diagnose(Wanted("a"), None).kept()
    assert (alone.diagnosis, alone.snapshots) == (kept.diagnosis, ())


@pytest.mark.parametrize(
    ("names", "error"), [([], NotFound), (["a", "b"], InvalidInput), (["only"], None)], ids=["none", "two", "one"]
)
def test_job_left_out(names: list[str], error: type[UnhangError] | None) -> None:
    """The only job is meant; with several one must be named."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/jobs":
            return httpx.Response(200, json={"jobs": [{"name": name} for name in names]})
        assert request.url.path == "/v1/jobs/only/stacks"
        return httpx.Response(200, json={"job": "only", "tree": []})

    if error is None:
        assert remote(answer).view(TREE, JobChoice(None)).job == "only"
    else:
        with pytest.raises(error):
            remote(answer).view(TREE, JobChoice(None))


@pytest.mark.parametrize(
    ("aspect", "choice", "parameters"),
    [
        (logs(5), JobChoice("a", frozenset((7, 0, 1, 2))), {"lines": "5", "ranks": "0-2,7"}),
        (TREE, JobChoice("a", native=True), {"format": "tree", "native": "true"}),
        (CHECKS, JobChoice("a"), {}),
    ],
)
def test_view_parameters(aspect: Aspect[View], choice: JobChoice, parameters: dict[str, str]) -> None:
    """Ranks are sent folded, lines as a number; native stacks are asked of the same route."""

    def answer(request: httpx.Request) -> httpx.Response:
        assert (request.url.path, dict(request.url.params)) == (f"/v1/jobs/a/{aspect.path}", parameters)
        return httpx.Response(
            200, json={"job": "a", "lines": [], "events": [], "tree": [], "looked_at": "", "checks": []}
        )

    assert remote(answer).view(aspect, choice).job == "a"


@pytest.mark.parametrize(
    ("response", "error", "said"),
    [
        (problem(404, "no agent knows a job 'a'", "the jobs: b"), NotFound, "no agent knows"),
        (problem(400, "bad"), InvalidInput, "bad"),
        (problem(401, "a token is asked for"), NotPermitted, "token"),
        (problem(403, "may read", "ask with a token that may look"), NotPermitted, "may read"),
        (problem(502, "x"), UnhangError, "x"),
        (httpx.Response(200, text="<html>"), Unreachable, "is not a TreeView"),
        (httpx.Response(500, text="<html>\x1b[2J"), Unreachable, "HTTP 500"),
        (httpx.Response(302, headers={"Location": "http://evil/"}), Unreachable, "HTTP 302"),
    ],
)
def test_refusals(response: httpx.Response, error: type[UnhangError], said: str) -> None:
    """Each becomes one of our errors, with what to do about it where that is known."""
    with pytest.raises(error, match=said) as caught:
        remote(lambda _: response).view(TREE, JobChoice("a"))
    assert not isinstance(caught.value, Unreachable) or caught.value.advice
    told = response.status_code == 403  # by the collector, for it knows what that token may
    assert error is not NotPermitted or ("may look" if told else "--token-file") in caught.value.advice


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (httpx.ReadTimeout("slow"), "in time"),
        (httpx.RemoteProtocolError("garbage"), "does not speak HTTP"),
        (httpx.ConnectError("x"), "cannot be reached"),
        (REFUSED, "refuses the connection"),
    ],
)
def test_failures_below_http(failure: httpx.HTTPError, said: str) -> None:
    """The collector's address is in the sentence."""

    def answer(_: httpx.Request) -> httpx.Response:
        raise failure

    with pytest.raises(Unreachable, match=said) as caught:
        remote(answer).jobs()
    assert "http://head:8470" in str(caught.value)


def test_collector_down() -> None:
    """From outside: one sentence, one advice, status 1; the variable counts like the option."""
    for arguments, env in ((("--collector", "127.0.0.1:1"), {}), ((), {"UNHANG_COLLECTOR": "http://127.0.0.1:1"})):
        done = unhang("diagnose", "a", *arguments, env=env)
        assert (done.status, done.out) == (1, "")
        assert "http://127.0.0.1:1 refuses the connection" in done.err
        assert len(done.err.splitlines()) == 2


def test_token_file(tmp_path: Path) -> None:
    """The first token is sent; a file without one cannot be used."""
    file = tmp_path / "token"
    file.write_text("# ours\ns3cret\n", encoding="ascii")
    file.chmod(0o600)
    assert Remote.at("head:8470", file)._client.headers["Authorization"] == "Bearer s3cret"
    file.write_text("# ours\n", encoding="ascii")
    with pytest.raises(InvalidSettings, match="no token"):
        Remote.at("head:8470", file)


@pytest.mark.parametrize("url", ["", "http://", "ftp://x", "http://x:99999", "http://x/?y=1", "http://[", "http:// x"])
def test_urls_that_are_none(url: str) -> None:
    """They are quoted in the complaint."""
    with pytest.raises(InvalidSettings, match="not a collector's URL"):
        Remote.at(url, None)


@pytest.mark.parametrize("url", ["https://head", "HTTPS://head:8470/unhang/", "http://head", "head:8470"])
def test_certificates_are_verified_wherever_there_are_any(url: str) -> None:
    """However the scheme is spelled; for plain HTTP no authorities are read."""
    options = client_options(url, None)
    assert options["verify"] is (httpx.URL(options["base_url"]).scheme == "https")


def test_a_name_that_is_no_text() -> None:
    """As somebody may paste it: the collector is asked, and says that there is none."""

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.raw_path.decode().startswith("/v1/jobs/j%3F/")
        return problem(404, "no agent knows job 'j?'")

    with pytest.raises(NotFound, match="no agent knows"):
        remote(answer).diagnose(Wanted("j\udcff", looks=1), None)
