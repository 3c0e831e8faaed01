"""The page at `/docs` and the document behind it, of both services: nothing from elsewhere, nothing that runs."""

import base64
import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.server.api.page import render_page
from shared.server.gate import OPEN
from tests.build.services.services import write_token
from tests.system.attacks.served import KINDS, serve

_OF_EVERY_ROUTE = {"408", "413", "421", "431", "500"}
_WHO = {"401", "403"}


class _Elements(HTMLParser):
    """All elements of a page, in order, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))

    def values(self, attribute: str) -> set[str]:
        """Return all values of one attribute."""
        return {value for _, attributes in self.all if (value := attributes.get(attribute))}


@pytest.fixture(scope="module", params=KINDS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of one of the services, which asks for a token; the client has none."""
    folder = tmp_path_factory.mktemp(request.param)
    with (
        serve(request.param, folder, token_file=write_token(folder)) as service,
        httpx.Client(base_url=service.plain_url(""), timeout=60) as asking,
    ):
        yield asking


def test_page_needs_nobody_else(client: httpx.Client) -> None:
    """Its style is inside and known by its hash; each link leads into the page, or to the document beside it."""
    answer = client.get("/docs")
    elements = _Elements(answer.text)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script" not in {tag for tag, _ in elements.all}
    assert elements.values("src") == set()
    inside = {link for link in elements.values("href") if link.startswith("#")}
    assert {link[1:] for link in inside} <= elements.values("id")
    assert elements.values("href") - inside == {"openapi.json", "data:,"}
    assert not [name for _, attributes in elements.all for name in attributes if name.startswith("on")]


def test_policy_allows_that_style_alone(client: httpx.Client) -> None:
    """Every other kind of content is refused by the browser, and so is a frame around the page."""
    answer = client.get("/docs")
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = dict(one.split(" ", 1) for one in answer.headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_page_shows_every_route_and_schema(client: httpx.Client) -> None:
    """Each has its place, and links lead there."""
    document = client.get("/openapi.json").json()
    page = client.get("/docs").text
    ids = _Elements(page).values("id")
    operations = [one for methods in document["paths"].values() for one in methods.values()]
    assert {one["operationId"] for one in operations} <= ids
    assert {f"schema-{name}" for name in document["components"]["schemas"]} <= ids


def test_nothing_else_is_open(client: httpx.Client) -> None:
    """FastAPI's own pages load scripts from other hosts; they are gone, and so is their place without a token."""
    assert {"/healthz", "/docs", "/openapi.json"} == OPEN
    assert [client.get(path).status_code for path in sorted(OPEN)] == [200, 200, 200]
    assert [client.get(path).status_code for path in ("/redoc", "/docs/oauth2-redirect")] == [401, 401]


def test_document_names_every_problem(client: httpx.Client) -> None:
    """Each error is a problem document, by its own media type; nothing is left of FastAPI's form of them."""
    document = client.get("/openapi.json").json()
    schema = {"$ref": "#/components/schemas/Problem"}
    assert not {"HTTPValidationError", "ValidationError"} & document["components"]["schemas"].keys()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            errors = {status: one for status, one in operation["responses"].items() if status >= "4"}
            asks = _WHO if "security" in operation else set()
            takes = {"422"} if operation.get("parameters") or "requestBody" in operation else set()
            assert errors.keys() >= _OF_EVERY_ROUTE | asks | takes
            assert "default" not in errors
            if path.endswith("/health"):  # to a probe a job that is stuck is no error of ours
                del errors["503"]["content"]["application/json"]
            assert all(one["content"] == {"application/problem+json": {"schema": schema}} for one in errors.values())


def test_text_of_a_document_is_text() -> None:
    """Whatever stands in it is shown, and is no part of the page."""
    evil = "</style><script>alert(1)</script>`<img src=x onerror=y>` **<b>**"
    operation: dict[str, Any] = {
        "operationId": evil,
        "tags": [evil],
        "summary": evil,
        "description": evil,
        "parameters": [
            {"name": evil, "in": "query", "required": True, "description": evil, "schema": {"enum": [evil]}},
            {"name": "p", "in": "path", "required": True, "schema": {"type": "string", "examples": [evil]}},
        ],
        "requestBody": {"content": {evil: {"schema": {"$ref": evil}}}},
        "responses": {"200": {"description": evil, "content": {evil: {"schema": {"const": evil, "title": evil}}}}},
    }
    field = {"type": evil, "default": evil, "examples": [evil], "pattern": evil, "description": evil}
    document = {
        "info": {"title": evil, "version": evil, "summary": evil, "description": evil},
        "paths": {f"/{{p}}/{evil}": {"get": operation}},
        "components": {"schemas": {evil: {"properties": {evil: field}, "required": [evil], "description": evil}}},
    }
    tags = {tag for tag, _ in _Elements(render_page(document)).all}
    assert not {"script", "img"} & tags
    assert "<b>" not in render_page(document)


def test_commands_can_be_pasted(tmp_path: Path) -> None:
    """What must be given is given, by its example, as a shell and a server read it."""
    with serve("collector", tmp_path) as service:
        page = httpx.get(service.plain_url("/docs")).text
    shown = re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)
    deep = "&quot;$URL/v1/jobs/slurm-4242/ranks/0/deep?how=gdb&quot;"
    assert f"curl -H &quot;Authorization: Bearer $TOKEN&quot; {deep}" in shown
    assert "curl &quot;$URL/healthz&quot;" in shown
    assert any("-X PUT" in one and "-d @body.json" in one for one in shown)
