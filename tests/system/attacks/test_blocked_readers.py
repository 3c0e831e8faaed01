"""Who blocks whoever reads about his processes blinds the agent for his own alone, and the agent says so."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.find.blockers import MOST_OF_ONE
from tests.system.attacks.users import EVE

REPOSITORY = Path(__file__).parents[3]
MANY = 12


def told(folder: Path, how: str, many: int) -> list[dict[str, Any]]:
    """What the agent says while so many processes block, and again when as many others do."""
    own = ("unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc")
    program = (sys.executable, "-m", "tests.system.attacks.blocked_pages", str(folder), how, str(many))
    done = subprocess.run((*own, *program), cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    if "No such" in done.stderr or "not permitted" in done.stderr:
        pytest.skip(f"no FUSE here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.root
@pytest.mark.slow
def test_variables_of_the_start_that_nobody_can_read_block_nobody(folder: Path) -> None:
    """The kernel gives none of them, and no other memory of such a process is read: it is told, and is no rank."""
    for said in told(folder, "start", MANY):
        assert said["honest"] == [True]
        assert said["seconds"] < 8
        assert (said["health"]["status"], said["health"]["lost_threads"]) == ("ok", 0)
        assert any(
            "the environment of processes of the same launcher cannot be read" in each for each in said["missing"]
        )


@pytest.mark.root
@pytest.mark.slow
def test_user_who_blocks_readers_is_avoided_and_others_are_seen(folder: Path) -> None:
    """Their variables of now: starting them anew gains nothing, and /healthz tells whose."""
    first, again = told(folder, "pointer", MANY)
    for said in (first, again):
        assert said["honest"] == [True]
        assert said["seconds"] < 8
        assert said["health"]["status"] == "degraded"
        (avoided,) = said["health"]["avoided"]
        assert (avoided["user"], avoided["wholly"]) == (str(EVE), True)
        assert said["health"]["lost_threads"] <= MOST_OF_ONE
        assert any(f"user {EVE}" in detail for detail in said["missing"])
        assert f'unhang_agent_avoided_processes{{user="{EVE}"}}' in said["metrics"]
