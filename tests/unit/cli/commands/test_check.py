"""`unhang check` on this machine, from files, and through a collector."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import unhang as unhang_group
from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs.checked_jobs import job as made_job
from tests.build.jobs.checked_jobs import rank
from tests.build.processes.commands import FIRST, LOCKED_OUT, REPOSITORY, SLEEPER, Job, unhang
from tests.build.processes.processes import SLEEP, rank_environment, running

CASE = REPOSITORY / "tests" / "data" / "cases" / "missing_rank2"
PORT = 20_000 + FIRST % 9_000


@pytest.fixture
def two_sizes() -> Iterator[dict[str, str]]:
    """Two processes of one job that disagree on its size; the environment in which they are seen alone.

    Not ranks of the session's `job`, which may run by now.
    """
    with ExitStack() as started:
        for number, size in ((SLEEPER, 60_000), (LOCKED_OUT, 60_001)):
            size += SLEEPER
            env = rank_environment(number, port=PORT, world_size=size)
            started.enter_context(running(SLEEP, env=env))
        yield {"UNHANG_AGENT_ONLY_RANKS": f"{SLEEPER}-{LOCKED_OUT}"}


def test_on_this_machine(two_sizes: dict[str, str]) -> None:
    """Real processes: what differs between them, the status, JSON and text."""
    done = unhang("check", "--json", env=two_sizes)
    assert (done.status, done.err) == (10, "")
    (found,) = json.loads(done.out)["checks"]
    assert (found["id"], found["severity"]) == ("world_sizes_differ", "wrong")
    text = unhang("check", env=two_sizes).out
    assert text.startswith("WRONG  world_sizes_differ\n")
    assert "--nproc-per-node" in text


def test_all_is_well(job: Job) -> None:
    """Silence, and status 0."""
    done = unhang("check", env=job.env)
    assert (done.status, done.out) == (0, "no problems found\n")


def write(directory: Path, snapshots: list[NodeSnapshot]) -> None:
    """Keep snapshots as files."""
    for number, each in enumerate(snapshots):
        (directory / f"{number}.json").write_text(each.model_dump_json(), encoding="utf-8")


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({}, 0),
        ({"NCCL_DEBUG": ""}, 0),
        ({"NCCL_ALGO": "Tree"}, 11),
        ({"MASTER_PORT": "1"}, 10),
        ({"MASTER_PORT": "1", "NCCL_ALGO": "Tree"}, 10),
    ],
    ids=["well", "note", "risky", "wrong", "both"],
)
def test_status(tmp_path: Path, settings: dict[str, str], status: int) -> None:
    """By the worst that was seen; notes do not count."""
    write(tmp_path, made_job(rank(3, settings=settings)))
    result = CliRunner().invoke(unhang_group, ["check", "--from", str(tmp_path)])
    assert result.exit_code == status, result.output


def test_dumps_alone_cannot_be_checked() -> None:
    """Nothing is known of settings: another status than all is well, and why."""
    result = CliRunner().invoke(unhang_group, ["check", "--from", str(CASE)])
    assert (result.exit_code, result.stdout) == (12, "nothing could be checked\n")
    assert "no settings: ranks 0-3" in result.stderr
