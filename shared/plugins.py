"""Doors for packages of others: a function that one offers by an entry point of ours is called beside our own.

What is installed is used. One that cannot be loaded costs itself: it is left out, and `unhang plugins` says why.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

SOURCES = "unhang.sources"
FINDERS = "unhang.finders"
RECEIVERS = "unhang.receivers"
GROUPS = (SOURCES, FINDERS, RECEIVERS)

_log = logging.getLogger(__name__)


class Plugin(NamedTuple):
    """A function of an installed package."""

    name: str
    package: str
    """With its version, for people."""
    call: Callable[..., Any]


@dataclass(frozen=True)
class Plugins:
    """Those of one group that can be used, by name, and what could not be."""

    usable: dict[str, Plugin]
    problems: tuple[str, ...] = ()


@cache
def plugins(group: str) -> Plugins:
    """Return what is installed for one of `GROUPS`, loaded once. What is left out is logged."""
    usable: dict[str, Plugin] = {}
    problems: list[str] = []
    for entry in sorted(entry_points(group=group), key=lambda each: (each.name, each.value)):
        try:
            call = _loaded(entry)
            if entry.name in usable:
                raise ValueError(f"{usable[entry.name].package} has this name, too")
        except Exception as error:  # noqa: BLE001 - a package of somebody else's, which costs itself
            problems.append(f"{group}: {entry.name} of {_package(entry)}: {type(error).__name__}: {error}")
            _log.warning("a plugin is left out: %s", problems[-1])
            continue
        usable[entry.name] = Plugin(entry.name, _package(entry), call)
    return Plugins(usable, tuple(problems))


def _loaded(entry: EntryPoint) -> Callable[..., Any]:
    found = entry.load()
    if not callable(found):
        raise TypeError(f"{entry.value} is not a function")
    return found  # type: ignore[no-any-return]


def _package(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
