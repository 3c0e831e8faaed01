"""Who imports what, read from the sources without running them."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("agent", "cli", "collector", "shared")

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
"""Where statements hold others."""


class Import(NamedTuple):
    """One import: where it stands, what it names, and whether it runs when the module is loaded."""

    file: Path
    line: int
    name: str
    """The dotted name; for `from a import b` it is `a.b`, whether `b` is a module or not."""
    at_load: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(REPOSITORY)}:{self.line} imports {self.name}"


def sources(folder: str) -> tuple[Path, ...]:
    """Return every Python file under `folder`, sorted."""
    return tuple(sorted((REPOSITORY / folder).rglob("*.py")))


@cache
def imports_of(file: Path) -> tuple[Import, ...]:
    """Return all imports in `file`, also those inside functions."""
    return tuple(_walk(file, ast.parse(file.read_bytes(), filename=str(file)), True))


def imports_under(folder: str) -> Iterator[Import]:
    """Yield the imports of every file under `folder`."""
    for file in sources(folder):
        yield from imports_of(file)


def reached_from(folder: str) -> tuple[Path, ...]:
    """Return the files of ours that are loaded by all that is under `folder`, sooner or later, those files included."""
    return _closure(sources(folder), at_load=False)


def loaded_with(module: str) -> tuple[Path, ...]:
    """Return the files of ours that loading one file loads at once, that file included."""
    return _closure([REPOSITORY / module], at_load=True)


def _closure(files: Iterable[Path], *, at_load: bool) -> tuple[Path, ...]:
    seen: dict[Path, None] = {}
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen[file] = None
            followed = (one for one in imports_of(file) if one.at_load or not at_load)
            waiting.extend(ours for one in followed for ours in files_of(one.name))
    return tuple(sorted(seen))


def _walk(file: Path, node: ast.AST, at_load: bool) -> Iterator[Import]:
    for child in _statements_in(node):
        if isinstance(child, ast.Import):
            yield from (Import(file, child.lineno, alias.name, at_load) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = _base(file, child)
            yield from (Import(file, child.lineno, f"{base}.{alias.name}", at_load) for alias in child.names)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _walk(file, child, at_load and not inside)


def _statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a block, and its handlers and cases: expressions, most of a tree, import nothing."""
    for field in _BLOCKS:
        yield from getattr(node, field, ())


def _base(file: Path, statement: ast.ImportFrom) -> str:
    """Return the absolute name of the module that a `from ... import` names."""
    if statement.level == 0:
        return statement.module or ""
    package = file.relative_to(REPOSITORY).parts[: -statement.level]
    return ".".join((*package, *([statement.module] if statement.module else [])))


@cache
def files_of(name: str) -> tuple[Path, ...]:
    """Return the files of ours that importing `name` loads: the module, and the packages above it."""
    package, _, _ = name.rpartition(".")
    above = files_of(package) if package else ()
    if name.partition(".")[0] not in PACKAGES:
        return ()
    path = REPOSITORY.joinpath(*name.split("."))
    return (*above, *(file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()))
