"""The harness itself: forked ranks look as executed ones do, to the kernel and to themselves."""

import os
import sys
from pathlib import Path

import pytest

from tests.system.live.jobs import MARK, Job, JobFailed
from tests.system.live.truths import PROGRAMS

pytestmark = [pytest.mark.live, pytest.mark.ptrace]


def words(pid: int, file: str) -> list[str]:
    """Read a file of /proc that holds texts with a zero after each."""
    return Path(f"/proc/{pid}/{file}").read_text().split("\0")[:-1]


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def test_forked_ranks_look_executed(tmp_path: Path) -> None:
    """Command line, variables, session, streams and parent are those of ranks that torchrun has started."""
    program = "asleep_before_collective"
    with Job(program, directory=tmp_path, forked=True) as job:
        for rank, pid in job.ranks.items():
            assert words(pid, "cmdline")[-1] == str(PROGRAMS / f"{program}.py")
            assert {f"RANK={rank}", "WORLD_SIZE=4", f"{MARK}={job.mark}"} <= set(words(pid, "environ"))
            _, parent, group, session = stat(pid)[:4]
            assert (int(group), int(session)) == (pid, pid)
            assert "torch.distributed.run" in words(int(parent), "cmdline")
            assert f"TORCHELASTIC_RUN_ID={job.name}" in words(pid, "environ")
            assert os.readlink(f"/proc/{pid}/fd/1").startswith(str(tmp_path))
        assert len(job.processes()) == 5
    assert job.processes() == []


def test_a_forked_rank_that_is_killed_is_no_zombie(tmp_path: Path) -> None:
    """As where a script has started it: its parent takes the status at once."""
    with Job("killed_rank", directory=tmp_path, forked=True) as job:
        assert not Path(f"/proc/{job.ranks[2]}").exists()
        assert words(job.ranks[0], "cmdline")[0] == sys.executable


def test_why_a_forked_rank_ended_is_kept(tmp_path: Path) -> None:
    """A job that cannot start is noticed at once, and its ranks' tracebacks are in its output."""
    job = Job("healthy", directory=tmp_path, forked=True, environment={"GLOO_SOCKET_IFNAME": "eth9"})
    with pytest.raises(JobFailed, match="Unable to find address for: eth9"), job:
        pass
