"""Real jobs of which nothing is left but what torch and Gloo have written: the right rank is named by that alone."""

from pathlib import Path

import pytest

from tests.system.live.asking import Reply, diagnose
from tests.system.live.fork_server import fork_server
from tests.system.live.launchers import Order, common_environment, torchrun
from tests.system.live.truths import PROGRAMS

pytestmark = pytest.mark.live

LIFETIME_SECONDS = 110


def run_to_its_end(program: str, directory: Path, **environment: str) -> None:
    """Run a program under torchrun, which ends it when the first rank fails; each rank's log goes below `directory`."""
    (command,) = torchrun(Order(PROGRAMS / f"{program}.py", 4, f"logs-{program}")).commands
    python, *module, script = command.arguments
    kept = ("--redirects", "3", "--log-dir", str(directory / "logs"))
    told = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "UNHANG_TEST_LIFETIME": str(LIFETIME_SECONDS), **environment}
    with open(directory / "output", "wb") as output:
        launcher = fork_server().start(
            (python, *module, *kept, script),
            environment=common_environment(directory) | told,
            directory=directory,
            output=output.fileno(),
            ranks=4,
        )
    launcher.wait(LIFETIME_SECONDS + 20)
    said = (directory / "output").read_text()
    assert "ChildFailedError" in said, said


def judged_logs_of(directory: Path) -> Reply:
    return diagnose("logs", "--from", str(directory / "logs"), directory=directory)


def test_rank_0_at_a_monitored_barrier_says_who_did_not_come(tmp_path: Path) -> None:
    """One reporter's word: named, and no more than suspected."""
    run_to_its_end("monitored_barrier", tmp_path, UNHANG_TEST_BARRIER_SECONDS="4")
    reply = judged_logs_of(tmp_path)
    (finding,) = reply.answer["findings"]
    assert (finding["kind"], finding["certainty"]) == ("rank_not_joined", "suspected")
    assert [culprit["rank"] for culprit in finding["culprits"]] == [2]
    assert any("failed to pass monitoredBarrier" in e.get("line", "") for e in finding["evidence"])


def test_ranks_that_compare_what_they_run_convict_the_odd_one(tmp_path: Path) -> None:
    """Everybody accuses somebody; the majority's own words stand against the odd one's own."""
    run_to_its_end("wrong_size_larger", tmp_path)
    reply = judged_logs_of(tmp_path)
    (finding,) = reply.answer["findings"]
    assert (finding["kind"], finding["victims"]) == ("collective_mismatch", "0-1,3")
    assert [culprit["rank"] for culprit in finding["culprits"]] == [2]
