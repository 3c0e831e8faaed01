"""The page at `/docs`: an OpenAPI document as plain HTML.

It is made here and runs no script, so that it works on nodes without a way to the internet, and so that nothing of
others' making runs in a page that may ask services with the rights of these.
"""

import base64
import hashlib
import json
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from shared.server.api.html import Html, element, joined, marked, prose
from shared.server.api.schemas import Schema, describe, example_of, notes_on, type_of

_STYLE = Path(__file__).with_name("page.css").read_text("utf-8")

_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""No script, and nothing from anywhere: the one style is known by its hash."""

_HEAD = Html(
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    '<link rel="icon" href="data:,">'  # without it, browsers ask for /favicon.ico
)
_HOW_TO_ASK = """The examples need two variables of your shell: `URL`, where this service is, such as
`http://localhost:8470`, and `TOKEN`, if the service asks for one. The same as a document for programs: """


def render_page(document: dict[str, Any]) -> str:
    """Return a whole page on an OpenAPI document of FastAPI's."""
    info = document["info"]
    title = f"{info['title']} {info['version']}"
    head = element("head", _HEAD, element("title", title), element("style", Html(_STYLE)))
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    body = element(
        "body",
        element("h1", title),
        prose(info.get("summary", "")),
        prose(info.get("description", "")),
        element("p", marked(_HOW_TO_ASK), element("a", "openapi.json", href="openapi.json")),
        _contents(operations),
        *(_chapter(tag, list(group)) for tag, group in groupby(operations, lambda one: _tag_of(one[2]))),
        element("h2", "Schemas", id="schemas"),
        *(describe(name, schema) for name, schema in sorted(document["components"]["schemas"].items())),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


Operation = tuple[str, str, dict[str, Any]]
"""A path, a method and what the document says of the two."""


def _tag_of(operation: dict[str, Any]) -> str:
    return str(next(iter(operation.get("tags", ())), "routes"))


def _contents(operations: list[Operation]) -> Html:
    rows = [
        element(
            "tr",
            element("td", _method(method), " ", element("a", path, href=f"#{operation['operationId']}")),
            element("td", operation["summary"]),
        )
        for path, method, operation in operations
    ]
    return element("nav", element("table", *rows), element("p", element("a", "Schemas", href="#schemas")))


def _chapter(tag: str, operations: list[Operation]) -> Html:
    return joined([element("h2", tag), *(_section(*one) for one in operations)])


def _section(path: str, method: str, operation: dict[str, Any]) -> Html:
    parameters = operation.get("parameters", [])
    return element(
        "section",
        element("h3", _method(method), " ", element("code", path)),
        element("p", element("strong", operation["summary"])),
        prose(operation.get("description", "")),
        _parameters(parameters),
        _body(operation),
        _answers(operation["responses"]),
        element("pre", _command(path, method, operation)),
        id=operation["operationId"],
    )


def _method(method: str) -> Html:
    return element("span", method.upper(), class_=f"method {method}")


def _parameters(parameters: list[dict[str, Any]]) -> Html:
    rows = [
        element(
            "tr",
            element(
                "td",
                element("code", one["name"]),
                f" in the {one['in']}",
                Html(" <b title='required'>*</b>") if one.get("required") else "",
            ),
            element("td", type_of(one["schema"])),
            element("td", marked(one.get("description", "")), " ", element("small", notes_on(one["schema"]))),
        )
        for one in parameters
    ]
    return joined([element("h4", "Parameters"), element("table", *rows)]) if rows else Html()


def _body(operation: dict[str, Any]) -> Html:
    body = operation.get("requestBody")
    if body is None:
        return Html()
    kinds = [joined([element("code", media), ": ", type_of(one["schema"])]) for media, one in body["content"].items()]
    return joined([element("h4", "Body"), element("p", joined(kinds, ", "))])


def _answers(answers: dict[str, Any]) -> Html:
    good = [_answer(status, one) for status, one in answers.items() if status < "4"]
    bad = [_answer(status, one) for status, one in answers.items() if status >= "4"]
    return joined(
        [
            element("h4", "Answers"),
            element("table", *good),
            element("details", element("summary", "Errors"), element("table", *bad)),
        ]
    )


def _answer(status: str, answer: dict[str, Any]) -> Html:
    content: dict[str, dict[str, Schema]] = answer.get("content", {})
    kinds = [
        joined([element("code", media), *([": ", type_of(one["schema"])] if one.get("schema") else [])])
        for media, one in content.items()
    ]
    return element(
        "tr", element("td", status), element("td", joined(kinds, ", ")), element("td", marked(answer["description"]))
    )


def _command(path: str, method: str, operation: dict[str, Any]) -> str:
    """Return how to ask with curl, with examples for all that is required."""
    query = []
    for one in operation.get("parameters", []):
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", quote(_example(one["schema"]), safe=""))
        elif one.get("required"):
            query.append(f"{one['name']}={quote(_example(one['schema']), safe='')}")
    words = ["curl"] if method == "get" else ["curl", "-X", method.upper()]
    if "security" in operation:
        words.append('-H "Authorization: Bearer $TOKEN"')
    if operation.get("requestBody", {}).get("required"):
        words.append("-H 'Content-Type: application/json' -d @body.json")
    return " ".join([*words, f'"$URL{path}{"?" if query else ""}{"&".join(query)}"'])


def _example(schema: Schema) -> str:
    example = example_of(schema)
    if example is not None:
        return example if isinstance(example, str) else json.dumps(example)
    if "enum" in schema:
        return str(schema["enum"][0])
    return str(schema.get("minimum", schema.get("title", "")))
