"""Slurm that fails or says nonsense, which no real one does on request (tests/system/slurm has that): by stand-ins."""

import os
import time
from pathlib import Path

import pytest

from collector.agents.polling import PolledSource
from collector.agents.slurm import SlurmNodes
from shared.missing import Reason
from tests.build.processes.processes import is_alive
from tests.build.processes.waiting import until

URL = "http://{host}:8471"


def program(directory: Path, name: str, script: str) -> None:
    """Put an executable on the PATH of the test."""
    directory.mkdir(exist_ok=True)
    file = directory / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


async def asked(directory: Path, *, seconds: float = 30.0, **environment: str) -> PolledSource:
    """Ask once, where Slurm is not installed but for the programs of the test."""
    path = f"{directory}{os.pathsep}{_without_slurm(directory)}"
    standing = PolledSource(
        SlurmNodes(agent_url=URL, environment={"PATH": path, **environment}), deadline_seconds=seconds
    )
    await standing.refresh()
    return standing


def _without_slurm(directory: Path) -> Path:
    """Return a folder with what scripts call."""
    tools = directory / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("sleep", "yes"):
        if not (tools / name).exists():
            (tools / name).symlink_to(f"/usr/bin/{name}")
    return tools


def nodes(standing: PolledSource) -> list[str]:
    """The agents' hosts."""
    return [sighting.address.host for sighting in standing.reading.sightings]


async def test_scontrol_reads_what_we_cannot(tmp_path: Path) -> None:
    """A form that is not ours is given to Slurm's own reader; without it, that job's nodes are missing."""
    program(tmp_path, "squeue", 'echo "7|n[1-2"; echo "8|m1"')
    without = await asked(tmp_path)
    assert (nodes(without), without.reading.missing[0].reason) == (["m1"], Reason.UNREADABLE)
    program(tmp_path, "scontrol", 'test "$1 $2 $3" = "show hostnames n[1-2" && printf "n1\\nn2\\n"')
    standing = await asked(tmp_path)
    assert (nodes(standing), standing.reading.missing) == (["n1", "n2", "m1"], ())


async def test_allocation_tells_where_there_is_no_squeue(tmp_path: Path) -> None:
    """A collector that was started within a job finds that job's nodes."""
    standing = await asked(tmp_path, SLURM_JOB_ID="99", SLURM_JOB_NODELIST="n[7-8]")
    assert (nodes(standing), standing.reading.jobs) == (["n7", "n8"], {"slurm-99": ("n7", "n8")})
    nothing = await asked(tmp_path)
    assert nothing.trouble is not None and nothing.trouble.reason is Reason.NOT_FOUND


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", Reason.UNREADABLE),
        ("echo 'what is this'; echo '1|$(reboot)'", Reason.UNREADABLE),
        ("yes '4242|n1' ", Reason.REFUSED),
        ("echo '1|n[1-999999]'", None),
    ],
)
async def test_what_is_no_answer_keeps_the_nodes_before(tmp_path: Path, script: str, reason: Reason | None) -> None:
    """Slurm that fails, says nonsense or never ends saying it."""
    standing = await asked(tmp_path)
    program(tmp_path, "squeue", "echo '1|n[1-2]'")
    standing = await asked(tmp_path)
    program(tmp_path, "squeue", script)
    await standing.refresh()
    if reason is None:
        assert standing.reading.missing[0].reason is Reason.UNREADABLE
    else:
        assert standing.trouble is not None and standing.trouble.reason is reason
        assert nodes(standing) == ["n1", "n2"]


async def test_squeue_that_hangs_is_killed_with_all_it_started(tmp_path: Path) -> None:
    """Within the deadline, and no process is left."""
    program(tmp_path, "squeue", f"sleep 60 & echo $! > {tmp_path}/pid; wait")
    began = time.monotonic()
    standing = await asked(tmp_path, seconds=2.0)
    assert time.monotonic() - began < 30
    assert standing.trouble is not None and standing.trouble.reason is Reason.TIMED_OUT
    pid = int((tmp_path / "pid").read_text())
    await until(lambda: not is_alive(pid))
