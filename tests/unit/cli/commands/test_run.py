"""`unhang run` and `probe-path`: the command runs as if nothing stood before it, but for the probe."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build.processes.commands import command, environment, unhang


def test_probe_path_is_a_directory() -> None:
    """One line, a directory that holds a `sitecustomize`."""
    done = unhang("probe-path")
    assert (done.status, done.err) == (0, "")
    assert (Path(done.out.removesuffix("\n")) / "sitecustomize.py").is_file()


def test_path_comes_first_and_keeps_the_rest() -> None:
    """The job's own PYTHONPATH stays, and an empty one does not become the working directory."""
    probe = unhang("probe-path").out.strip()
    show = ("run", "--", sys.executable, "-S", "-c", "import os; print(os.environ['PYTHONPATH'])")
    assert unhang(*show, env={"PYTHONPATH": "/a:/b"}).out.strip() == f"{probe}:/a:/b"
    assert unhang(*show, env={"PYTHONPATH": ""}).out.strip() == probe


@pytest.mark.parametrize("dashes", [["--"], []])
def test_status_and_arguments_are_the_commands_own(dashes: list[str]) -> None:
    """Options behind the command are not ours."""
    done = unhang("run", *dashes, "sh", "-c", 'echo "$0 $1"; exit 7', "--json", "-h")
    assert (done.status, done.out) == (7, "--json -h\n")


def test_becomes_the_command() -> None:
    """No process of ours stays between: the pid is the same, and a signal hits the command."""
    process = subprocess.Popen(
        command("run", "--", "sh", "-c", "echo $$; exec sleep 100"),
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert int(process.stdout.readline()) == process.pid
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
    process.stdout.close()


def test_signals_are_as_they_were() -> None:
    """Python ignores SIGPIPE for itself; a command that inherits that would never end in a pipe."""
    shown = unhang("run", "--", "grep", "SigIgn", "/proc/self/status").out.split()[1]
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("SigIgn"))
    ignored_by_python = (1 << (signal.SIGPIPE - 1)) | (1 << (signal.SIGXFSZ - 1))
    assert int(shown, 16) == int(own.split()[1], 16) & ~ignored_by_python


@pytest.mark.parametrize(("name", "status"), [("no-such-command", 127), ("/", 126)])
def test_command_that_cannot_run(name: str, status: int) -> None:
    """The statuses that shells use."""
    done = unhang("run", "--", name)
    assert done.status == status
    assert name in done.err
    assert "Traceback" not in done.err


def test_nothing_to_run() -> None:
    """A wrong call."""
    assert unhang("run").status == 2
    assert (
        os.path.basename(sys.executable)
        in unhang("run", "--", sys.executable, "-c", "import sys; print(sys.executable)").out
    )
