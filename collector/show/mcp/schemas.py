"""JSON schemas of what tools take, as short as they can be: a model reads every word of a list of tools."""

from typing import Any

from shared.value import Value

Schema = dict[str, Any]

_SAID_OF_ALL = ("type", "required", "additionalProperties")
_UNSAID = ("title", "minLength", "maxLength")


def arguments_schema(takes: type[Value]) -> Schema:
    """Return the schema of a tool's arguments."""
    return _short(takes.model_json_schema())


def _short(schema: Schema) -> Schema:
    """Put named parts where they are used; the tool's own description says what all is of."""
    parts = schema.get("$defs", {})
    properties = {name: _field(field, parts) for name, field in schema["properties"].items()}
    return {**{name: said for name, said in schema.items() if name in _SAID_OF_ALL}, "properties": properties}


def _field(field: Schema, parts: Schema) -> Schema:
    """Leave out its title, which repeats its name, its lengths, and that null is the default of what may be null."""
    match {name: said for name, said in field.items() if name not in _UNSAID and said is not None}:
        case {"anyOf": [of, {"type": "null"}], **more}:
            of = _field(of, parts)
            enum = {"enum": [*of["enum"], None]} if "enum" in of else {}
            return {**of, **more, **enum, "type": [of["type"], "null"]}
        case {"$ref": name, **more}:
            part = parts[name.rpartition("/")[2]]
            return {"type": part["type"], "enum": part["enum"], **more}
        case said:
            return said
