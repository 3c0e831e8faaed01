"""A healthy job: how it is started, what it does while others wait, and by whom they are held up."""

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.system.live.truths import PROGRAMS

FOLDER = PROGRAMS / "healthy"
NOT_PROGRAMS = {"ranks"}
OURS = "ours"

_SAID = {"LAUNCHES", "HELD_BY", "JOBS"}
"""What a program of ours may say of itself, in literals."""


@dataclass(frozen=True)
class Program:
    """A healthy job. In its command and its environment stand {folder}, its own, {seconds} and {python}."""

    name: str
    origin: str
    waits: str
    """What it does while others wait, in a sentence."""
    command: str
    """For a shell."""
    environment: Mapping[str, str] = field(default_factory=dict)
    waits_from: str = ""
    """Words of its output after which others wait; none: from its start on."""
    held_by: frozenset[int] | None = None
    """Ranks that hold others up; none: nobody waits long enough to be told; None: it changes."""
    jobs: tuple[str, ...] = ()
    """Names of jobs, where there are several."""
    prepare: str = ""
    """What to run before, for a shell: data sets are made, not fetched."""


TORCHRUN = "{python} -m torch.distributed.run --standalone --nproc-per-node 3"
_RANKS = "MASTER_ADDR=127.0.0.1 MASTER_PORT=29533 WORLD_SIZE=3"
_NAMED = "{python} -m torch.distributed.run --nproc-per-node 2 --rdzv-backend c10d"

LAUNCHES: Mapping[str, str] = {
    "torchrun": f"exec {TORCHRUN} {{program}}",
    "python": "exec {python} {program}",
    "elastic": f"TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 exec {TORCHRUN} --max-restarts 3 {{program}}",
    "again": f"until [ -e {{folder}}/enough ]; do {TORCHRUN} {{program}} || exit 1; done",
    "shell": " & ".join(f"{_RANKS} RANK={rank} {{python}} {{program}}" for rank in range(3)) + " & wait $! && wait",
    "two": " & ".join(
        f"HEALTHY_JOB={job} {_NAMED} --rdzv-id {job} --rdzv-endpoint 127.0.0.1:{port} {{program}}"
        for job, port in (("rollout", 29541), ("trainer", 29542))
    )
    + " & wait $! && wait",
}


def own_programs() -> Iterator[Program]:
    """Give each program of tests/programs/healthy, in each of its launches."""
    for path in sorted(FOLDER.glob("*.py")):
        if path.stem in NOT_PROGRAMS:
            continue
        said = _said(path)
        launches = said.get("LAUNCHES", ["shell"])
        for launch in launches:
            yield Program(
                name=path.stem if len(launches) == 1 else f"{path.stem}-{launch}",
                origin=OURS,
                waits=said["doc"],
                command=LAUNCHES[launch].replace("{program}", str(path)),
                waits_from="the others wait",
                held_by=frozenset(said.get("HELD_BY", [0])),
                jobs=tuple(said.get("JOBS", ())),
            )


def _said(path: Path) -> dict[str, Any]:
    """Read a program's docstring and its literals, without running it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said: dict[str, Any] = {"doc": ast.get_docstring(tree)}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if (name := ast.unparse(target)) in _SAID:
                said[name] = ast.literal_eval(node.value)
    return said


def filled(text: str, *, folder: Path, seconds: float, python: str = sys.executable) -> str:
    """Put a program's folder, its seconds and its Python into a text."""
    names = {"folder": str(folder), "seconds": str(round(seconds)), "python": python}
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    return text
