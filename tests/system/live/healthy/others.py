"""Healthy jobs that other projects ship, as others.toml says: their packages, and copies of their repositories."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.system.live.healthy.environment import copy_of
from tests.system.live.healthy.programs import Program

_HERE = Path(__file__).parent
_SHORT = {
    "{torchrun}": "{python} -m torch.distributed.run --standalone --nproc-per-node 2",
    # `accelerate launch --cpu` starts one process, or asks for MPI.
    "{accelerate}": "ACCELERATE_USE_CPU=true {python} -m torch.distributed.run --standalone --nproc-per-node 2",
    "{data}": f"{{python}} {_HERE / 'data.py'}",
}


def others() -> Iterator[Program]:
    """Give each."""
    for said in tomllib.loads((_HERE / "others.toml").read_text(encoding="utf-8"))["program"]:
        yield _program(said)


def _program(said: dict[str, Any]) -> Program:
    def full(text: str) -> str:
        for name, value in (*_SHORT.items(), ("{repository}", str(copy_of(said["origin"])))):
            text = text.replace(name, value)
        return text

    command = full(said["command"].strip())
    if said.get("again"):
        command = f"until [ -e {{folder}}/enough ]; do ({command}) || exit 1; done"
    return Program(
        name=said["name"],
        origin=said["origin"],
        waits=said["waits"],
        command=command,
        prepare=full(said.get("prepare", "")),
        waits_from=said.get("waits_from", ""),
        held_by=frozenset(said["held_by"]) if "held_by" in said else None,
    )
