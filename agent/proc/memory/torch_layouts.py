"""Where the fields of PyTorch's C++ objects lie, by version: a table that is made from the headers of each wheel.

`agent/proc/memory/torch_layouts.json`, written by `deploy/layouts/`, which says how it is to be read. It is data of
ours: what does not fit in it is a mistake of ours, and raises whatever Python raises.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

TABLE = Path(__file__).with_name("torch_layouts.json")

# 2.13.0+cpu        2.6.0a0+ecf3bae40a.nv25.01
_VERSION = re.compile(r"(\d{1,3}\.\d{1,3})(?:\.\d{1,3})?")


class Field(NamedTuple):
    """One field of a structure, in bytes."""

    offset: int
    size: int
    item: int = 0
    """The size of an item, where it holds any."""


class Structure(NamedTuple):
    """A class or a container, as compiled."""

    size: int
    fields: Mapping[str, Field]

    def offset(self, name: str) -> int:
        """Return where a field lies. Raises KeyError where this version has none."""
        return self.fields[name].offset


@dataclass(frozen=True, eq=False)
class Layout:
    """One way in which PyTorch's objects lie in memory."""

    name: str
    versions: tuple[str, ...]
    old_strings: bool
    """Are strings those that libstdc++ made before 2015, as in official wheels up to 2.6?"""
    structures: Mapping[str, Structure]

    def __getitem__(self, name: str) -> Structure:
        """Return a structure. Raises KeyError where this version has none."""
        return self.structures[name]


class LayoutTable:
    """All layouts that are known, and by which names objects are found."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.symbols: Mapping[str, Sequence[str]] = table["symbols"]
        self._layouts = {row["name"]: _layout(row) for row in table["layouts"]}
        self._of_build = {
            build_id: self._layouts[build["layout"]]
            for build in table["builds"]
            for build_id in build["build_ids"].values()
        }

    def candidates(self, build_ids: Iterable[str], version: str | None) -> list[Layout]:
        """Return the layouts that libraries of these build ids or this version of PyTorch may have, likeliest first.

        A build that the table lists has one. Others have that of their version, or of a release with the same first two
        numbers, with strings of either kind: whoever reads by it finds out which it is. None: nobody knows.
        """
        known = [self._of_build[build_id] for build_id in build_ids if build_id in self._of_build]
        return known[:1] or list(dict.fromkeys(self._of_version(version or "")))

    def _of_version(self, version: str) -> Iterator[Layout]:
        release = version.partition("+")[0]
        yield from (layout for layout in self._layouts.values() if release in layout.versions)
        minor = _VERSION.match(version)
        for layout in self._layouts.values() if minor is not None else ():
            if any(known.rpartition(".")[0] == minor[1] for known in layout.versions if minor is not None):
                yield layout

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """All of them, in the order of the table."""
        return tuple(self._layouts.values())

    @property
    def newest(self) -> str:
        """The newest version that is listed, for words."""
        versions = [version for layout in self._layouts.values() for version in layout.versions]
        return max(versions, key=lambda version: [int(part) for part in version.split(".")])


def _layout(row: Mapping[str, Any]) -> Layout:
    structures = {
        name: Structure(about["size"], {field: Field(*numbers) for field, numbers in about["fields"].items()})
        for name, about in row["structures"].items()
    }
    return Layout(row["name"], tuple(row["torch"]), row["strings"] == "old", structures)


@cache
def read_layouts() -> LayoutTable:
    """Return the table that comes with the agent."""
    return LayoutTable(json.loads(TABLE.read_bytes()))
