"""Sources that fail are asked again and again, for days: no try may leave a descriptor open."""

import asyncio
import os
import signal
from pathlib import Path

from collector.agents.file_sd import FileTargets
from collector.agents.site_program import run_program
from tests.build.processes.waiting import until

_TRIES = 5


def descriptors() -> int:
    """How many are open in this process."""
    return len(os.listdir("/proc/self/fd"))


async def test_directory_in_the_place_of_a_file(tmp_path: Path) -> None:
    """It is opened before it can be known to be none."""
    (tmp_path / "a.json").mkdir()
    targets = FileTargets(f"{tmp_path}/*.json")
    before = descriptors()
    for _ in range(_TRIES):
        assert "Is a directory" in (await targets.read()).missing[0].detail
    assert descriptors() == before


async def test_program_that_hangs_and_leaves_somebody_behind(tmp_path: Path) -> None:
    """Who left its group is not killed with it, and holds the pipe open."""
    program, left = tmp_path / "squeue", tmp_path / "left"
    program.write_text(f"#!/bin/sh\nsetsid sh -c 'echo $$ >> {left}; exec sleep 120' &\nsleep 120\n")
    program.chmod(0o755)
    await run_program(("true",), os.environ)  # what asyncio opens once for all programs
    before = descriptors()
    try:
        for tries in range(1, 3):
            asking = asyncio.create_task(run_program((str(program),), os.environ))
            await until(lambda: left.exists() and len(left.read_text().splitlines()) == tries)  # noqa: B023
            asking.cancel()
            await asyncio.wait([asking])
        await asyncio.sleep(0)
        assert descriptors() <= before
    finally:
        for pid in left.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
