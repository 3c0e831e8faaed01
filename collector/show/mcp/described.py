"""The tools as `tools.toml` describes them: what a client is told of each, and how its arguments are read."""

from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, create_model

from shared.answer.incidents import IncidentState
from shared.answer.words import Act, Cause, Kind, Verdict
from shared.packs import read_tables
from shared.value import Value

Schema = dict[str, Any]

_TABLES = read_tables(__file__, "tools.toml")
_WORDS = {of.__name__: [*of] for of in (Act, Cause, IncidentState, Kind, Verdict)}
_TYPES = {"string": str, "number": float, "integer": int}
_BOUNDS = {"minimum": "ge", "maximum": "le", "minLength": "min_length", "maxLength": "max_length"}


class Arguments(Value):
    """What one tool takes; nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolDescription(NamedTuple):
    """One tool, for a client."""

    name: str
    title: str
    description: str
    takes: type[Arguments]
    input_schema: Schema
    output_schema: Schema


def _described(row: Schema) -> ToolDescription:
    fields = {name: _with_words(_TABLES["fields"][which]) for name, which in row["takes"].items()}
    takes = create_model("Arguments", __base__=Arguments, **{name: _field(one) for name, one in fields.items()})
    own = _TABLES["answers"].get(row.get("answers"), {})
    answer = {name: _with_words(one) for name, one in (_TABLES["answers"]["all"] | own).items()}
    always = [name for name, one in own.items() if isinstance(one["type"], str)]
    shown = {name: {key: said for key, said in one.items() if "Length" not in key} for name, one in fields.items()}
    needed = [name for name, one in fields.items() if not ("default" in one or "null" in one["type"])]
    return ToolDescription(
        row["name"],
        row["title"],
        row["description"],
        takes,
        {"type": "object", "additionalProperties": False, "properties": shown, **_required(needed)},
        {"type": "object", "properties": answer, **_required(always)},
    )


def _required(names: list[str]) -> Schema:
    return {"required": names} if names else {}


def _with_words(field: Schema) -> Schema:
    """Write out the words that a field may hold."""
    words = field.get("enum")
    if words is None:
        return field
    known = _WORDS[words] if isinstance(words, str) else words
    return {**field, "enum": [*known, *([None] if "null" in field["type"] else [])]}


def _field(field: Schema) -> Any:
    """Return a field as pydantic takes it."""
    kind = field["type"] if isinstance(field["type"], str) else field["type"][0]
    of: Any = Literal[tuple(field["enum"])] if "enum" in field else _TYPES[kind]
    bounds = {ours: field[key] for key, ours in _BOUNDS.items() if key in field}
    if "null" in field["type"]:
        return of | None, Field(default=None, **bounds)
    return of, Field(default=field.get("default", ...), **bounds)


TOOLS = tuple(map(_described, _TABLES["tools"]))
"""In the order in which they are listed."""

PARTS = tuple(_TABLES["fields"]["PART"]["enum"])
"""The lists of a diagnosis."""
