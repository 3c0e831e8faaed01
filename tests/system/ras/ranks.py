"""Real processes that pass for ranks whose NCCL has a RAS thread, and a way to ask them."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.deadline import Deadline, ThreadPool
from agent.find.choose_ranks import Rank
from agent.proc.procfs import ProcFs
from agent.sources.look_context import LookContext
from agent.sources.ras.ras_source import RasSource, RasTargets
from shared.missing import Missing
from shared.wire.ras import RasLook
from shared.wire.snapshot import RankSnapshot
from tests.build.processes.processes import rank_environment, running
from tests.system.ras.reports import Comm, Member, json_report, text_report

REPOSITORY = Path(__file__).parents[3]


def reports(version: str, *, number: int = 2) -> dict[str, str | None]:
    """What a job of `number` ranks reports; `{pid}` is the pid of whoever answers, which is rank 0."""
    members = tuple(Member(rank, counts={"AllReduce": 9}) for rank in range(number - 1))
    odd = Comm((*members, Member(number - 1, counts={"AllReduce": 7})))
    has_json = tuple(map(int, version.split("."))) >= (2, 28, 7)
    return {
        "text": text_report([odd], version=version).decode().replace(f"process {4000 + number - 1} ", "process {pid} "),
        "json": json_report([odd], version=version).decode().replace('"pid": 4000', '"pid": {pid}')
        if has_json
        else None,
    }


@contextmanager
def ras_rank(
    folder: Path, *, port: int, rank: int = 0, version: str = "2.29.2", mode: str = "well", address: str = "127.0.0.1",
    command: Sequence[str] = (), job_port: int = 29400, world_size: int = 2, module: str = "tests.system.ras.server",
    arguments: Sequence[str] = (), **changed: Any,
) -> Iterator[subprocess.Popen[str]]:  # fmt: skip
    """A rank that has NCCL mapped and whose RAS thread listens."""
    library = folder / f"libnccl.so.{version}"
    library.write_bytes(b"\x7fELF" + b"\0" * 4092)
    plan = {"address": address, "port": port, "mode": mode, "library": str(library), "version": version}
    plan |= {**reports(version), **changed}
    file = folder / f"plan-{rank}-{mode}-{job_port}.json"
    file.write_text(json.dumps(plan))
    more = {"NCCL_RAS_ADDR": f"localhost:{port}", "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"}
    env = rank_environment(rank, port=job_port, world_size=world_size, **more)
    program = (*command, sys.executable, "-m", module, str(file), *arguments)
    with running(env=env, command=program, cwd=REPOSITORY) as process:
        yield process


def ask_ras(
    ranks: Sequence[Rank], *, policy: Any = "safe", looks: Sequence[RankSnapshot] = (), seconds: float = 30.0,
    everyone: Sequence[Rank] = (), source: RasSource | None = None,
) -> tuple[RasLook | None, tuple[Missing, ...]]:  # fmt: skip
    source = source or RasSource(policy, ThreadPool())
    context = LookContext(ProcFs(), "here")
    return source.look(RasTargets(ranks, everyone or ranks, looks, (), True), context, Deadline(seconds))
