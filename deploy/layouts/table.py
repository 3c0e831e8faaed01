"""The table of layouts: `agent/proc/memory/torch_layouts.json`, which the agent reads ranks' memory by.

    {"format": 1,
     "symbols": {"recorder": [names], "gloo": [names], "registry": [names], "nccl": [names], "mpi": [names], ...},
     "layouts": [{"name", "torch": [versions], "strings": "new" or "old", "structures": {NAME: {"size", "fields"}}}],
     "builds": [{"torch", "cuda", "python", "build_ids": {LIBRARY: hex}, "layout": name}]}

- `symbols`: what ELF calls the 8-byte pointer to the flight recorder of a library, and the vtables of process groups.
  A vtable's symbol is its beginning; objects point 16 bytes behind that. `registry`, since 2.15: an unordered_map of
  std::string, the name of a backend, to a pointer to the recorder that its groups record into.
- `layouts`: one for each set of structures that differs. A version stands in one layout for each kind of strings.
  `strings`: what std::string is, by _GLIBCXX_USE_CXX11_ABI: `new` where that is 1, `old` where it is 0.
- `fields`: [offset, size], and the size of an item where the field is a container. Names are those of the headers,
  which `deploy/layouts/structs.py` lists; `NAME.set` is the flag of an optional. A field or structure that a version
  does not have is absent.
- `builds`: the official wheels that all this was read from. `layout` is a layout's name.

A group whose `global_ranks_in_group` is empty has all ranks. A recorder without `all_pg_status_` keeps no status.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict

from deploy.layouts.probe import Structure

TABLE = Path("agent/proc/memory/torch_layouts.json")
FORMAT = 1
_STRINGS = {True: "new", False: "old"}


class Build(TypedDict):
    torch: str
    cuda: str | None
    python: str
    build_ids: dict[str, str]
    layout: str


class Layout(TypedDict):
    name: str
    torch: list[str]
    strings: str
    structures: dict[str, Structure]


class Table(TypedDict):
    format: int
    symbols: dict[str, list[str]]
    layouts: list[Layout]
    builds: list[Build]


class Found(NamedTuple):
    """What one installed PyTorch tells of itself; `build` is None for the strings that it was not built with."""

    version: str
    new_strings: bool
    structures: Mapping[str, Structure]
    symbols: Collection[tuple[str, str]]
    build: Build | None


def read_table() -> Table:
    """Return the committed table; an empty one where there is none."""
    if not TABLE.exists():
        return {"format": FORMAT, "symbols": {}, "layouts": [], "builds": []}
    table: Table = json.loads(TABLE.read_text())
    return table


def add(table: Table, found: Found) -> None:
    """Put into the table what was found of one build; what the table said of that build is replaced."""
    for kind, name in found.symbols:
        names = table["symbols"].setdefault(kind, [])
        names += [name] if name not in names else []
    layout = _layout_for(table, found)
    for other in _with(table, found.new_strings):
        other["torch"] = [version for version in other["torch"] if version != found.version]
    layout["torch"] = sorted([*layout["torch"], found.version], key=by_version)
    table["layouts"] = [one for one in table["layouts"] if one["torch"]]
    if found.build is not None:
        others = [one for one in table["builds"] if _key(one) != _key(found.build)]
        table["builds"] = [*others, {**found.build, "layout": layout["name"]}]
    _rename(table)


def _with(table: Table, new_strings: bool) -> list[Layout]:
    return [layout for layout in table["layouts"] if layout["strings"] == _STRINGS[new_strings]]


def _rename(table: Table) -> None:
    """Name layouts after the first version of each; builds of one that is gone are to be read again."""
    names = {}
    for layout in table["layouts"]:
        names[layout["name"]] = layout["torch"][0] + ("" if layout["strings"] == "new" else "-old")
        layout["name"] = names[layout["name"]]
    known = (build for build in table["builds"] if build["layout"] in names)
    table["builds"] = [{**build, "layout": names[build["layout"]]} for build in known]


def layout_of(table: Table, version: str, *, new_strings: bool) -> Layout | None:
    """Return the layout of a version; None where the table has none."""
    return next((layout for layout in _with(table, new_strings) if version in layout["torch"]), None)


def _key(build: Build) -> tuple[str, str | None, str]:
    return build["torch"], build["cuda"], build["python"]


def _layout_for(table: Table, found: Found) -> Layout:
    """Return the layout that says the same, or a new one."""
    for layout in _with(table, found.new_strings):
        if _agree(layout["structures"], found.structures):
            # A wheel without CUDA declares no NCCL.
            layout["structures"] = {**found.structures, **layout["structures"]}
            return layout
    strings = _STRINGS[found.new_strings]
    layout = {"name": f"new {strings}", "torch": [], "strings": strings, "structures": dict(found.structures)}
    table["layouts"].append(layout)
    return layout


def _agree(some: Mapping[str, Structure], others: Mapping[str, Structure]) -> bool:
    return all(some[name] == others[name] for name in some.keys() & others.keys())


def by_version(version: str) -> list[int]:
    """Sort versions: 2.9 before 2.10."""
    return [int(part) for part in version.split(".")]


def write_table(table: Table) -> None:
    """Write the table with a structure on a line, so that a difference can be read."""
    layouts = sorted(table["layouts"], key=lambda layout: (by_version(layout["torch"][0]), layout["strings"]))
    builds = sorted(table["builds"], key=lambda build: (by_version(build["torch"].partition("+")[0]), build["torch"]))
    symbols = _block(
        f"  {json.dumps(kind)}: {json.dumps(sorted(names))}" for kind, names in sorted(table["symbols"].items())
    )
    text = f'{{"format": {FORMAT},\n"symbols": {{\n{symbols}}},\n'
    text += f'"layouts": [\n{_block(map(_layout_text, layouts))}],\n'
    TABLE.write_text(text + f'"builds": [\n{_block("  " + json.dumps(build) for build in builds)}]}}\n')


def _layout_text(layout: Layout) -> str:
    about = {key: value for key, value in layout.items() if key != "structures"}
    lines = (f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in layout["structures"].items())
    return f'  {json.dumps(about)[:-1]}, "structures": {{\n{_block(lines)}  }}}}'


def _block(lines: Iterable[str]) -> str:
    return ",\n".join(lines) + "\n"
