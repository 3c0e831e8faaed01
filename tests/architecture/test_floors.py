"""The floors of the house: nothing imports upwards, no circles, no crowded room, no name twice."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.import_graph import PACKAGES, REPOSITORY, files_of, imports_of, sources

FLOORS = (
    "cli",
    "agent/app agent/serve collector/app collector/serve",
    "collector/show collector/renewals",
    "agent/agent agent/metrics agent/registration collector/metrics collector/service collector/watcher",
    "collector/agents collector/notify agent/look",
    "collector/files collector/keep collector/settings agent/sources",
    "collector/gather agent/find",
    "collector/looks",
    "collector/checks collector/detect collector/judge agent/tools",
    "collector/align agent/proc",
    "collector/concurrency agent/errors",
    "collector/hostlists collector/question agent/deadline agent/settings agent/probe",
    "shared/server",
    "shared/rules",
    "shared/answer",
    "shared/formats",
    "shared/wire",
    "shared",
)
"""From the top. A module stands on the floor of the longest name that it begins with."""

MOST_MODULES = 17
"""In one room, `__init__.py` not counted: some fifteen, so that a listing is read at a glance."""

MOST_LINES = 345
"""Of one module. Past 300 it is mostly two; today's longest are the contract and the reader of dumps."""


@cache
def floor_of(file: Path) -> int:
    """Return the floor on which a file stands, 0 at the top."""
    name = file.relative_to(REPOSITORY).with_suffix("").as_posix()
    floors = [
        (len(room), floor)
        for floor, rooms in enumerate(FLOORS)
        for room in rooms.split()
        if f"{name}/".startswith(f"{room}/")
    ]
    assert floors, f"{name} stands on no floor: give its room one in FLOORS"
    return max(floors)[1]


def modules() -> list[Path]:
    """Return every module of ours but the `__init__.py` files."""
    return [file for package in PACKAGES for file in sources(package) if file.name != "__init__.py"]


@cache
def imported_by(file: Path) -> frozenset[Path]:
    """Return the modules of ours that a file imports, wherever in it."""
    found = {ours for one in imports_of(file) for ours in files_of(one.name)}
    return frozenset(ours for ours in found if ours.name != "__init__.py" and ours != file)


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_imports_upwards(package: str) -> None:
    """What stands below never knows what stands above it."""
    upwards = [
        f"{file.relative_to(REPOSITORY)} imports {other.relative_to(REPOSITORY)}"
        for file in sources(package)
        if file.name != "__init__.py"
        for other in imported_by(file)
        if floor_of(other) < floor_of(file)
    ]
    assert upwards == []


def test_no_module_stands_in_a_circle() -> None:
    """Imports can be drawn without a circle: take away, again and again, who imports nobody that is left."""
    left = {file: imported_by(file) for file in modules()}
    while leaves := [file for file, others in left.items() if not others & left.keys()]:
        for leaf in leaves:
            del left[leaf]
    assert sorted(str(file.relative_to(REPOSITORY)) for file in left) == []


def test_no_room_is_crowded() -> None:
    """A listing of any room is read at a glance."""
    rooms: dict[Path, int] = defaultdict(int)
    for file in modules():
        rooms[file.parent] += 1
    crowded = {str(room.relative_to(REPOSITORY)): count for room, count in rooms.items() if count > MOST_MODULES}
    assert crowded == {}


def test_no_module_tells_two_stories() -> None:
    """A file that has grown past what one story needs is redrawn."""
    lengths = {file.relative_to(REPOSITORY).as_posix(): len(file.read_text("utf-8").splitlines()) for file in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_a_public_class_name_has_one_meaning() -> None:
    """No two public classes share a name: whoever reads it anywhere knows which one is meant."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in modules():
        for node in ast.parse(file.read_bytes()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(file.relative_to(REPOSITORY).as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_every_room_says_its_purpose() -> None:
    """The first line of a room's `__init__.py` is what a newcomer reads there."""
    silent = [
        str(room.relative_to(REPOSITORY))
        for room in {file.parent for file in modules()}
        if (room / "__init__.py").exists() and not ast.get_docstring(ast.parse((room / "__init__.py").read_bytes()))
    ]
    assert silent == []
