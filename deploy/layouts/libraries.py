"""Reads from PyTorch's libraries what tells builds apart, and the names by which the agent finds objects in memory."""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

# `nm` prints:  00000000149cb0b8 b _ZZN4c10d14FlightRecorderIN3c105EventEE3getEvE8instance
_RECORDER = re.compile(
    r"^(\w+) [bBuVdD] (_ZZN4c10d\d+(?:FlightRecorder|NCCLTraceBuffer)\w*3getEvE8instance)$", re.MULTILINE
)
# 00000000150002c0 b _ZZN4c10d17getFlightRecorderERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEE8registry
_REGISTRY = re.compile(r"^(\w+) [bB] (_ZZN4c10d17getFlightRecorder\w+8registry)$", re.MULTILINE)
# 00000000147f05c0 V _ZTVN4c10d16ProcessGroupGlooE
_GROUP = re.compile(
    r"^(\w+) [VdDrR] (_ZTVN4c10d(?:5(nccl2))?\d+ProcessGroup(Gloo|NCCL|NCCLLazy|MPI|UCC|XCCL)E)$", re.MULTILINE
)
_OURS = "N4c10d"
#     Build ID: b7066ed94f422786bd205cd2743c2722b5f366fd
_BUILD_ID = re.compile(r"Build ID: ([0-9a-f]{8,64})$", re.MULTILINE)


def build_id(library: Path) -> str | None:
    """Return the identity that the linker wrote into a library; None where it wrote none."""
    found = _BUILD_ID.search(_run("readelf", "--notes", str(library)))
    return None if found is None else found[1]


class Symbol(NamedTuple):
    """Where a library keeps its recorder or its list of more of them, or the vtable of a kind of process groups."""

    kind: str
    name: str
    address: int


@cache
def symbols(library: Path) -> tuple[Symbol, ...]:
    """Return those of a library: of kind `recorder` or `registry`, or named after the backend of the groups."""
    lines = _run("nm", "--no-sort", str(library)).split("\n")
    text = "\n".join(line for line in lines if _OURS in line)  # a thousandth of them
    found = [Symbol("recorder", name, int(address, 16)) for address, name in _RECORDER.findall(text)]
    found += [Symbol("registry", name, int(address, 16)) for address, name in _REGISTRY.findall(text)]
    for address, name, room, backend in _GROUP.findall(text):
        found.append(Symbol(backend.lower().replace("nccl", room or "nccl"), name, int(address, 16)))
    return tuple(found)


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
