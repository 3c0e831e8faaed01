"""The scripts of deploy/slurm, called by a real slurmd, which has no PATH of a login shell and drains at failure."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.deploy.units import REPOSITORY, RUN_SECONDS
from tests.system.slurm.cluster import Slurm
from tests.system.slurm.programs import Programs

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.needs("slurmd")]

SCRIPTS = tuple(sorted((REPOSITORY / "deploy" / "slurm").glob("*.sh")))
NODE = "node1"


@pytest.fixture(autouse=True)
def forgotten(programs: Programs) -> Iterator[None]:
    """Nothing was told yet, and `unhang` is not installed."""
    programs.log.unlink(missing_ok=True)
    programs.unhang.unlink(missing_ok=True)
    yield
    programs.unhang.unlink(missing_ok=True)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_linter_has_nothing_to_say(script: Path) -> None:
    """shellcheck, and the right to be run."""
    shellcheck = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run((shellcheck, script), capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert os.access(script, os.X_OK)


def test_agent_runs_from_the_first_job_to_the_last(slurm: Slurm, programs: Programs) -> None:
    """Two jobs on one node: the agent goes with the second."""
    jobs = [slurm.submit("-w", NODE, script="sleep 600") for _ in range(2)]
    start, stop = (f"{NODE} {word} --no-block unhang-agent.service" for word in ("start", "stop"))
    slurm.cancel(jobs[0])
    assert _of_agent(programs.told(start)) == [start, start]
    slurm.cancel(jobs[1])
    assert _of_agent(programs.told(stop)) == [start, start, stop]


def _of_agent(said: list[str]) -> list[str]:
    return [line for line in said if "unhang-agent.service" in line]


def test_no_failure_of_the_agent_drains_the_node(slurm: Slurm, programs: Programs) -> None:
    """systemctl fails: the node's log says so, and jobs go on."""
    before = (programs.folder / "systemctl").read_text(encoding="utf-8")
    programs.says("systemctl", "exit 1")
    job = slurm.submit("-w", NODE, script="sleep 600")
    slurm.cancel(job)
    said = programs.told("the agent was not stopped")
    assert f"{NODE} logger: -t unhang prolog of job {job}: the agent was not started" in said
    assert slurm.state(NODE) == "idle"
    (programs.folder / "systemctl").write_text(before, encoding="utf-8")


def test_health_check_starts_an_agent_that_does_not_run(slurm: Slurm, programs: Programs) -> None:
    """It says so in the log."""
    script = slurm.setting("HealthCheckProgram")
    assert subprocess.run((script,), env={"SLURMD_NODENAME": NODE}, timeout=RUN_SECONDS).returncode == 0
    assert programs.told() == [
        f"{NODE} logger: -t unhang the agent of this node did not run; starting it",
        f"{NODE} start --no-block unhang-agent.service",
    ]


@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh"])
@pytest.mark.parametrize("job", ["", "../../etc/passwd", "7 8", "$(id)", "-rf"])
def test_what_is_no_job_is_left_alone(script: str, job: str, programs: Programs) -> None:
    """Nothing outside the folder is touched, and nothing is started."""
    text = programs.placed((REPOSITORY / "deploy" / "slurm" / script).read_text(encoding="utf-8"))
    done = subprocess.run(("bash", "-c", text), env={"SLURM_JOB_ID": job, "SLURMD_NODENAME": "none"}, timeout=60)
    assert (done.returncode, programs.told(), (programs.folder / "none.seats").exists()) == (0, [], False)


def test_probe_is_given_to_whoever_asks(slurm: Slurm, programs: Programs) -> None:
    """By TaskProlog: what the real command prints, in the one form that slurmd understands."""
    probe = str(REPOSITORY / "agent" / "probe" / "inside")
    show = ("srun", "-w", NODE, "sh", "-c", 'echo "path=${PYTHONPATH:-}"')
    assert slurm.run(*show, UNHANG_PROBE="1").stdout == "path=\n", "it is not installed"
    programs.install()
    asked = [({}, ""), ({"UNHANG_PROBE": "0"}, ""), ({"UNHANG_PROBE": "1"}, probe)]
    asked += [({"UNHANG_PROBE": "1", "PYTHONPATH": "/a:/b"}, f"{probe}:/a:/b")]
    for variables, path in asked:
        assert slurm.run(*show, **variables).stdout == f"path={path}\n", variables


@pytest.mark.parametrize(
    ("unhang", "told", "state"),
    [
        (None, "NOT tested (status 127)", "idle"),
        ("echo no such option; exit 2", "NOT tested (status 2): no such option", "idle"),
        ("exit 10", "this node is bad", "drained"),
    ],
    ids=["not installed", "broken", "bad node"],
)
def test_preflight_as_a_prolog(unhang: str | None, told: str, state: str, slurm: Slurm, programs: Programs) -> None:
    """It drains a node that is bad, and no other; where nothing was tested the log says so."""
    if unhang is not None:
        programs.says("unhang", unhang)
    slurm.run("sbatch", "-w", NODE, "--output=/dev/null", "--wrap=true")
    assert any(told in line for line in programs.told(told))
    until = time.monotonic() + RUN_SECONDS
    while slurm.state(NODE) != state and time.monotonic() < until:
        time.sleep(0.2)
    assert slurm.state(NODE) == state
    programs.unhang.unlink(missing_ok=True)
    slurm.run("scancel", "--state=PENDING", "--user=root")
    slurm.run("scontrol", "update", f"NodeName={NODE}", "State=RESUME")


def test_preflight_as_a_prolog_with_unhang_installed(slurm: Slurm, programs: Programs) -> None:
    """It takes no variable of the job's for its own place, and says that the node is sound."""
    programs.install()
    python = Path("/opt/torch/bin/python")
    done = slurm.run("srun", "-w", NODE, "true")
    said = (programs.folder / "unhang-preflight.log").read_text(encoding="utf-8")
    assert done.returncode == 0
    assert python.exists() or "/opt/torch/bin/python cannot be run" in said


@pytest.mark.parametrize("until", ["verdict-*.txt", "started"], ids=["job goes on", "job ends meanwhile"])
def test_batch_script_asks_when_told_and_ends_as_its_job_does(
    until: str, slurm: Slurm, programs: Programs, tmp_path: Path
) -> None:
    """The signal of Slurm makes a verdict, and the job's status is the script's, whichever of them ends first."""
    programs.install()
    torchrun = f'touch started; while [ -z "$(ls {until} 2>/dev/null)" ]; do sleep 0.2; done; sleep 3; exit 7'
    programs.says("torchrun", torchrun)
    path = f"{programs.folder}:{os.environ['PATH']}"
    script = str(REPOSITORY / "deploy" / "slurm" / "job.sh")
    job = slurm.submit("-w", "node2,node3", f"--chdir={tmp_path}", script, PATH=path)
    deadline = time.monotonic() + RUN_SECONDS
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    while (ended := slurm.show(job, "ExitCode", "JobState"))[1] == "RUNNING" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert ended[0] == "7:0"
    assert len(list((tmp_path / f"looks-{job}").iterdir())) >= 2
    assert (tmp_path / f"verdict-{job}.txt").exists()
