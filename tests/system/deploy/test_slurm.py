"""The scripts for Slurm, run for real with stand-ins for what a node has: systemctl, logger, srun."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.system.deploy.units import REPOSITORY, RUN_SECONDS

SLURM = REPOSITORY / "deploy" / "slurm"
SCRIPTS = tuple(sorted(SLURM.glob("*.sh")))
NODE_PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"

SYSTEMCTL = '[ "$1" != is-active ] || exit 3\necho "$@" >> "{log}"\nexit {status}\n'
LOGGER = 'echo "logger: $*" >> "{log}"\n'


class Node:
    """A node with stand-ins on its PATH that write down what they are told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.says("logger", LOGGER.format(log=self.log))
        self.systemctl(0)

    def says(self, name: str, body: str) -> None:
        """Put a program on the PATH."""
        program = self.programs / name
        program.write_text(f"#!/bin/sh\n{body}", encoding="utf-8")
        program.chmod(0o755)

    def systemctl(self, status: int) -> None:
        """Let systemctl end with `status`."""
        self.says("systemctl", SYSTEMCTL.format(log=self.log, status=status))

    def told(self) -> list[str]:
        """Return what the stand-ins were told so far."""
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []

    def run(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script with our PATH and folder in the place of the node's."""
        text = (SLURM / script).read_text(encoding="utf-8")
        text = text.replace(NODE_PATH, f"PATH={self.programs}:/usr/bin:/bin")
        text = text.replace("/run/unhang-jobs", str(self.folder / "seats"))
        text = text.replace("/opt/unhang/bin/unhang", str(self.programs / "unhang"))
        return subprocess.run(
            ("bash", "-c", text), capture_output=True, text=True, timeout=RUN_SECONDS, check=False, env=variables
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node without jobs."""
    return Node(tmp_path)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_linter_has_nothing_to_say(script: Path) -> None:
    """shellcheck, and the right to be run."""
    shellcheck = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run((shellcheck, script), capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert os.access(script, os.X_OK)


def test_agent_runs_from_the_first_job_to_the_last(node: Node) -> None:
    """Two jobs on one node: the agent goes with the second."""
    for script, job in [("prolog.sh", "7"), ("prolog.sh", "8"), ("epilog.sh", "7"), ("epilog.sh", "8")]:
        assert node.run(script, SLURM_JOB_ID=job).returncode == 0
    start, stop = (f"{word} --no-block unhang-agent.service" for word in ("start", "stop"))
    assert node.told() == [start, start, stop]


@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh", "check.sh"])
def test_no_failure_drains_the_node(script: str, node: Node) -> None:
    """systemctl fails: the node's log says so, and the script ends well."""
    node.systemctl(1)
    done = node.run(script, SLURM_JOB_ID="7")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert node.told()[-1].startswith("logger: -t unhang")


@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh"])
@pytest.mark.parametrize("job", ["", "../../etc/passwd", "7 8", "$(id)", "-rf"])
def test_what_is_no_job_is_left_alone(script: str, job: str, node: Node) -> None:
    """Nothing outside the folder is touched, and nothing is started."""
    assert node.run(script, SLURM_JOB_ID=job).returncode == 0
    assert node.told() == []
    assert not (node.folder / "seats").exists()


def test_agent_that_does_not_run_is_started(node: Node) -> None:
    """And it is told; one that runs is left alone."""
    node.run("check.sh")
    assert node.told() == [
        "logger: -t unhang the agent of this node did not run; starting it",
        "start --no-block unhang-agent.service",
    ]
    node.log.unlink()
    node.says("systemctl", "exit 0\n")
    node.run("check.sh")
    assert node.told() == []


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, ""),
        ({"UNHANG_PROBE": "0"}, ""),
        ({"UNHANG_PROBE": "1"}, "export PYTHONPATH={probe}\n"),
        ({"UNHANG_PROBE": "1", "PYTHONPATH": "/a:/b"}, "export PYTHONPATH={probe}:/a:/b\n"),
        ({"UNHANG_PROBE": "1", "PYTHONPATH": "/a\nexport LD_PRELOAD=/b"}, ""),
    ],
    ids=["not asked", "refused", "asked", "beside others", "two lines"],
)
def test_probe_is_given_to_whoever_asks(variables: dict[str, str], said: str, node: Node) -> None:
    """What the real command prints, in the one form that slurmd understands."""
    run_it = f'cd {REPOSITORY} && exec {sys.executable} -m cli "$@"\n'
    node.says("unhang", run_it)
    done = node.run("task_prolog.sh", **variables)
    assert (done.returncode, done.stdout) == (0, said.format(probe=REPOSITORY / "agent" / "probe" / "inside"))


def test_no_probe_is_no_failure(node: Node) -> None:
    """Not installed, or broken: the task starts as it would have."""
    assert node.run("task_prolog.sh", UNHANG_PROBE="1").stdout == ""
    node.says("unhang", "echo /nowhere; exit 1\n")
    done = node.run("task_prolog.sh", UNHANG_PROBE="1")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("until", ["verdict", "question"], ids=["job goes on", "job ends meanwhile"])
def test_batch_script_asks_when_told_and_ends_as_its_job_does(until: str, node: Node) -> None:
    """The signal of Slurm makes a verdict, and the job's status is the script's, whichever of them ends first."""
    job_runs = f"touch started\nfor _ in $(seq 1000); do [ -e {until} ] || sleep 0.05; done\nexit 7\n"
    node.says("srun", f'[ "$1" = unhang ] || exec "$(dirname "$0")/unhang" snapshot\n{job_runs}')
    waits = "" if until == "verdict" else "sleep 1\n"
    node.says("unhang", f'touch question\n{waits}echo "$1" >> "{node.log}"\n[ "$1" != diagnose ] || touch verdict\n')
    variables = {"SLURM_JOB_ID": "42", "SLURM_JOB_NUM_NODES": "2", "PATH": f"{node.programs}:{os.environ['PATH']}"}
    with subprocess.Popen(("bash", SLURM / "job.sh"), cwd=node.folder, env=variables, stderr=subprocess.PIPE) as job:
        deadline = time.monotonic() + RUN_SECONDS
        while not (node.folder / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        job.send_signal(signal.SIGUSR1)
        assert job.wait(RUN_SECONDS) == 7
    assert node.told() == ["snapshot", "diagnose"]
    assert (node.folder / "verdict-42.txt").exists()
