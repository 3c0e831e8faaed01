"""The table of where PyTorch keeps its recorder: whether it can be as it says. How it is made: docs/layouts.md."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

TABLE: dict[str, Any] = json.loads(Path("agent/proc/memory/torch_layouts.json").read_text(encoding="ascii"))
LAYOUTS: list[dict[str, Any]] = TABLE["layouts"]
# Made of parts that are named as well: the header node of a map holds its root.
NESTED = re.compile(r".*\.set|end")

each_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout["name"])


def test_versions_and_builds_have_one_layout() -> None:
    """The agent knows the format. Version and kind of strings tell where to look; those that agree share a layout.

    A build is told apart by what its linker wrote, names its layout by a name that is there once, and has its version.
    """
    assert TABLE["format"] == 1
    versions = Counter((layout["strings"], version) for layout in LAYOUTS for version in layout["torch"])
    assert {strings for strings, _ in versions} == {"new", "old"}
    texts = Counter(json.dumps((layout["strings"], layout["structures"]), sort_keys=True) for layout in LAYOUTS)
    of_name = {layout["name"]: layout["torch"] for layout in LAYOUTS}
    identities = Counter(identity for build in TABLE["builds"] for identity in build["build_ids"].values())
    assert set(versions.values()) == set(texts.values()) == set(identities.values()) == {1}
    assert len(of_name) == len(LAYOUTS)
    assert all(re.fullmatch(r"[0-9a-f]{40}", identity) for identity in identities)
    assert all(build["torch"].partition("+")[0] in of_name[build["layout"]] for build in TABLE["builds"])


@each_layout
def test_fields_lie_in_their_structure(layout: dict[str, Any]) -> None:
    """One behind the other, within the size of the whole."""
    for name, structure in layout["structures"].items():
        fields = sorted(where for field, where in structure["fields"].items() if not NESTED.fullmatch(field))
        ends = [0, *(offset + size for offset, size, *_ in fields)]
        assert all(end <= offset for end, (offset, *_) in zip(ends, fields, strict=False)), name
        assert ends[-1] <= structure["size"], name


@each_layout
def test_flags_of_optionals(layout: dict[str, Any]) -> None:
    """Directly behind the value, within the optional."""
    flags = 0
    for structure in layout["structures"].values():
        fields = structure["fields"]
        for name in (name for name in fields if name.endswith(".set")):
            offset, size, value = fields[name.removesuffix(".set")]
            assert fields[name] == [offset + value, 1]
            assert value < size
            flags += 1
    assert flags >= 3


@each_layout
def test_containers(layout: dict[str, Any]) -> None:
    """They are as large as libstdc++ makes them, and hold what the table describes."""
    structures = layout["structures"]
    recorder, entry = structures["recorder"]["fields"], structures["entry"]["fields"]
    assert recorder["entries_"] == [recorder["entries_"][0], 24, structures["entry"]["size"]]
    assert structures["traceback"]["fields"]["frames_"][1:] == [24, structures["frame"]["size"]]
    assert entry["pg_name_"][1] == structures["string_pair"]["size"] == 2 * structures["string"]["size"]
    assert entry["profiling_name_"][1:] == [structures["string"]["size"], 1]
    assert entry["sizes_"][2] == 8
    assert (structures["string"]["size"], "string_head" in structures) == ((32, False), (8, True))[
        layout["strings"] == "old"
    ]


@each_layout
def test_what_a_reader_cannot_do_without(layout: dict[str, Any]) -> None:
    """Every version has these."""
    structures = layout["structures"]
    assert {"enabled_", "mutex_", "entries_", "max_entries_", "next_", "id_"} <= structures["recorder"]["fields"].keys()
    assert {"id_", "pg_id_", "collective_seq_id_", "op_id_", "retired_"} <= structures["entry"]["fields"].keys()
    assert {"rank_", "size_"} <= structures["backend"]["fields"].keys()
    assert {"lastEnqueuedSeq", "lastCompletedSeq"} <= structures["status"]["fields"].keys()


def test_symbols() -> None:
    """Each is a pointer to a recorder, the list of recorders, or the vtable of a class of process groups."""
    wanted = {"recorder": r"_ZZN4c10d\w+3getEvE8instance", "registry": r"_ZZN4c10d17getFlightRecorder\w+8registry"}
    assert {"recorder", "gloo", "nccl"} <= TABLE["symbols"].keys()
    for kind, names in TABLE["symbols"].items():
        assert all(re.fullmatch(wanted.get(kind, r"_ZTVN4c10d\w*ProcessGroup\w+"), name) for name in names)
