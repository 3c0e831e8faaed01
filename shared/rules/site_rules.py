"""Rules of a site: rows of its own beside ours, from directories or installed packages.

`UNHANG_RULES` names directories, as PATH does; an installed package offers its own by an entry point of the group
`unhang.rules`. Each file of TOML there holds tables by the names of `TABLES`. Such rows come after ours, so they add to
what is recognised and change nothing that is. A row that cannot be used costs itself: it is left out, and `problems`
says why.
"""

import logging
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from shared.answer.checks import Severity
from shared.answer.words import Cause
from shared.rules.pattern_cost import check_cost
from shared.wire.kernel_events import KernelEventKind
from shared.wire.log_events import EventKind

VARIABLE = "UNHANG_RULES"
GROUP = "unhang.rules"

_MOST_BYTES = 4_194_304
"""Of one file: a thousand times what a site knows."""

# wait_lease (acme/lease.py:41)        Cache::fetch (acme/cache.cpp)
FRAME = re.compile(r"^(?P<function>.+?) \((?P<file>[^()]*?)(?::\d+)?\)$")

_log = logging.getLogger(__name__)


class SiteRow(BaseModel):
    """What every row says of itself: its name, texts that it must match and must not, and where it is from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    matches: tuple[str, ...] = Field(min_length=1)
    never: tuple[str, ...] = Field(min_length=1)
    origin: str = Field(min_length=1)

    @model_validator(mode="after")
    def _holds_its_word(self) -> Self:
        for text in self.patterns():
            check_cost(text)
        for line in self.matches:
            if not self.fits(line):
                raise ValueError(f"does not match {line!r}, which `matches` says it does")
        for line in self.never:
            if self.fits(line):
                raise ValueError(f"matches {line!r}, which `never` says it does not")
        return self

    def patterns(self) -> tuple[str, ...]:
        """Return its regular expressions."""
        raise NotImplementedError

    def fits(self, text: str) -> bool:
        """Would it be taken for this text?"""
        raise NotImplementedError

    def as_ours(self) -> dict[str, Any]:
        """Return it as the pack of ours would hold it."""
        return self.model_dump(mode="json", exclude={"id", "matches", "never", "origin"})


class LineRule(SiteRow):
    """A line of a log. Named groups of the pattern become the event's fields."""

    kind: EventKind
    hint: str = Field(min_length=4)
    pattern: str

    def patterns(self) -> tuple[str, ...]:
        return (self.pattern,)

    def fits(self, text: str) -> bool:
        return self.hint in text and re.search(self.pattern, text) is not None


class KernelLineRule(LineRule):
    """A line of the kernel log."""

    kind: KernelEventKind  # type: ignore[assignment]


class FrameRule(SiteRow):
    """A frame, `FUNCTION (FILE:LINE)` as stacks show it, and what a thread does that is in it."""

    function: str
    file: str = ""
    doing: Literal["collective", "p2p", "store", "work", "device", "outside"] = "outside"
    cause: Cause
    label: str = Field(min_length=1)

    def patterns(self) -> tuple[str, ...]:
        return self.function, self.file

    def fits(self, text: str) -> bool:
        frame = FRAME.match(text)
        return (
            frame is not None
            and re.search(self.function, frame["function"]) is not None
            and re.search(self.file, frame["file"]) is not None
        )


class SecretRule(SiteRow):
    """A secret's shape: group 1 of the pattern is hidden. `hints`: one of these, separated by `|`, is in the text."""

    hints: str = Field(min_length=3)
    pattern: str

    def patterns(self) -> tuple[str, ...]:
        return (self.pattern,)

    def fits(self, text: str) -> bool:
        found = re.search(self.pattern, text)
        return any(hint in text for hint in self.hints.split("|")) and found is not None and bool(found[1])


class CheckRule(SiteRow):
    """A variable of a job's environment, and which of its values are wrong."""

    variable: str = Field(pattern=r"^[A-Z_][A-Z0-9_]{0,63}$")
    pattern: str
    severity: Severity
    why: str = Field(min_length=1)
    change: str = Field(min_length=1)
    of_nccl: bool = False

    def patterns(self) -> tuple[str, ...]:
        return (self.pattern,)

    def fits(self, text: str) -> bool:
        return re.search(self.pattern, text) is not None

    def as_ours(self) -> dict[str, Any]:
        """Return it with its name, which the answer gives; rows of ours may have several variables."""
        own = super().as_ours()
        return {"id": self.id, "variables": own.pop("variable"), **own}


class Table(NamedTuple):
    """What the rows of a table are, and where ours are: the file of the pack, and its table there."""

    model: type[SiteRow]
    pack: str
    rows: str


TABLES = {
    "lines": Table(LineRule, "rows.toml", "rows"),
    "kernel_lines": Table(KernelLineRule, "kernel_lines.toml", "rows"),
    "frames": Table(FrameRule, "frames.toml", "python"),
    "native_frames": Table(FrameRule, "frames.toml", "native"),
    "secrets": Table(SecretRule, "secrets.toml", "shapes"),
    "checks": Table(CheckRule, "settings.toml", "rows"),
}


class Found(NamedTuple):
    """A row of a site that is used."""

    table: str
    row: SiteRow
    file: str


@dataclass(frozen=True)
class SiteRules:
    """All rows that are used, in their order, and what could not be."""

    rows: tuple[Found, ...] = ()
    problems: tuple[str, ...] = ()


def rows_beside(pack: str, rows: str) -> list[dict[str, Any]]:
    """Return the rows that sites add to one table of a pack of ours, as that pack would hold them."""
    return [
        found.row.as_ours()
        for found in installed_rules().rows
        if (TABLES[found.table].pack, TABLES[found.table].rows) == (pack, rows)
    ]


def checked_variables() -> frozenset[str]:
    """Return the variables that checks of the site are about: agents report them beside those that they always do."""
    return frozenset(found.row.variable for found in installed_rules().rows if isinstance(found.row, CheckRule))


@cache
def installed_rules() -> SiteRules:
    """Return the rules of this process, read once. What is left out is logged."""
    folders = [Path(name) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
    found: list[Found] = []
    problems: list[str] = []
    for folder in folders:
        rules = read_rules(folder)
        found += rules.rows
        problems += rules.problems
    for entry in entry_points(group=GROUP):
        try:
            with as_file(files(entry.value.partition(":")[0])) as folder:
                rules = read_rules(folder, named=entry.name)
        except Exception as error:  # noqa: BLE001 - a package of somebody else's, which costs its own rules
            problems.append(f"{entry.name}: cannot be read: {type(error).__name__}: {error}")
            continue
        found += rules.rows
        problems += rules.problems
    for problem in problems:
        _log.warning("a rule is left out: %s", problem)
    return SiteRules(tuple(found), tuple(problems))


def read_rules(folder: Path, *, named: str | None = None) -> SiteRules:
    """Read all files of TOML in a directory, by name. Never raises for what stands in them."""
    try:
        paths = sorted(folder.glob("*.toml"))
    except OSError as error:
        return SiteRules(problems=(f"{folder}: {error.strerror}",))
    if not paths:
        return SiteRules(problems=(f"{folder}: no such directory, or no *.toml in it",))
    found: list[Found] = []
    problems: list[str] = []
    for path in paths:
        shown = str(path) if named is None else f"{named}/{path.name}"
        try:
            tables = _tables_of(path)
        except (OSError, ValueError) as error:
            problems.append(f"{shown}: {error}")
            continue
        for one in _rows_of(tables, shown):
            if isinstance(one, str):
                problems.append(one)
            elif any(other.row.id == one.row.id for other in found):
                problems.append(f"{shown}: {one.row.id}: this id is taken")
            else:
                found.append(one)
    return SiteRules(tuple(found), tuple(problems))


def _tables_of(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"longer than {_MOST_BYTES} bytes")
    return tomllib.loads(data.decode())


def _rows_of(tables: dict[str, Any], file: str) -> Iterator[Found | str]:
    """Give each row that can be used, or why it cannot."""
    for name, rows in tables.items():
        if name not in TABLES:
            yield f"{file}: unknown table [[{name}]]; known are {', '.join(TABLES)}"
            continue
        for number, row in enumerate(rows if isinstance(rows, list) else [rows], 1):
            which = row.get("id", f"row {number}") if isinstance(row, dict) else f"row {number}"
            try:
                yield Found(name, TABLES[name].model.model_validate(row), file)
            except ValidationError as error:
                yield f"{file}: [[{name}]] {which}: {'; '.join(_mistakes(error))}"


def _mistakes(error: ValidationError) -> Iterable[str]:
    for one in error.errors(include_url=False, include_input=False):
        place = ".".join(map(str, one["loc"]))
        text = one["msg"].removeprefix("Value error, ")
        yield f"{place}: {text}" if place else text
