"""JSON schemas of an OpenAPI document, in a few words each, with links to those that have names."""

import json
from typing import Any

from shared.server.api.html import Html, element, joined, marked

Schema = dict[str, Any]

_LIMITS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("pattern", "matches {}"),
)


def type_of(schema: Schema) -> Html:
    """Return what a value of this schema is: `text`, a list of something, the name of another schema."""
    if "$ref" in schema:
        return _link(schema["$ref"])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return joined(map(type_of, schema[several]), " or ")
    if "const" in schema:
        return element("code", json.dumps(schema["const"]))
    if "enum" in schema:
        return joined((element("code", json.dumps(one)) for one in schema["enum"]), " or ")
    if "prefixItems" in schema:
        return joined(["[", joined(map(_item, schema["prefixItems"]), ", "), "]"])
    if schema.get("type") == "array":
        return joined(["list of ", type_of(schema.get("items", {}))])
    if isinstance(schema.get("additionalProperties"), dict):
        return joined(["object: name to ", type_of(schema["additionalProperties"])])
    return joined([schema.get("type", "anything")])


def notes_on(schema: Schema) -> Html:
    """Return limits, default and an example, as far as the schema says them."""
    limits = [words.format(_number(one[key])) for one in _parts(schema) for key, words in _LIMITS if key in one]
    default = schema.get("default")
    notes: list[str] = [", ".join(limits)] if limits else []
    if default not in (None, "", [], {}):
        notes.append(joined(["default ", element("code", json.dumps(default))]))
    example = example_of(schema)
    if example is not None:
        notes.append(joined(["e.g. ", element("code", json.dumps(example, ensure_ascii=False))]))
    return joined(notes, "; ")


def example_of(schema: Schema) -> Any:
    """Return the first example, None without one."""
    return next(iter(schema.get("examples", ())), None)


def describe(name: str, schema: Schema) -> Html:
    """Return a section on one schema that has a name."""
    about = schema.get("description", "")
    fields = schema.get("properties")
    shown = _fields(fields, schema.get("required", ())) if fields else element("p", type_of(schema))
    return element("section", element("h3", name), element("p", marked(about)), shown, id=anchor_of(name))


def anchor_of(name: str) -> str:
    """Return the id by which a schema is linked to."""
    return f"schema-{name}"


def _fields(fields: dict[str, Schema], required: list[str]) -> Html:
    rows = [
        element(
            "tr",
            element("td", element("code", name), Html(" <b title='always there'>*</b>") if name in required else ""),
            element("td", type_of(one)),
            element("td", marked(one.get("description", "")), " ", element("small", notes_on(one))),
        )
        for name, one in fields.items()
    ]
    return element("table", *rows)


def _link(reference: str) -> Html:
    name = reference.rpartition("/")[2]
    return element("a", name, href=f"#{anchor_of(name)}")


def _item(schema: Schema) -> Html:
    title = schema.get("title", "").lower()
    return joined([f"{title}: ", type_of(schema)]) if title else type_of(schema)


def _parts(schema: Schema) -> list[Schema]:
    return [schema, *schema.get("anyOf", ())]


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
