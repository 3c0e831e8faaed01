"""The probe inside real ranks: what it gives, and that a job runs as it would without it."""

import ast
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.deadline import Deadline
from agent.probe.path import probe_path
from agent.proc.procfs import ProcFs
from agent.sources.recorder.recorder_source import RecorderSource
from agent.tools.pyspy import dump_stacks
from agent.tools.run_bounded import find_program
from shared.wire.trace import Trace
from tests.build.processes import ports
from tests.build.processes.looking import ask_source, rank_of
from tests.build.processes.processes import READY, rank_environment, running, until
from tests.system.live.forked_programs import forked

pytestmark = [pytest.mark.ptrace, pytest.mark.slow]

START = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
"""
WORK = START + "group = dist.new_group([0], group_desc='alone')\ndist.all_reduce(torch.ones(3), group=group)\n"
END = "dist.destroy_process_group()\n"
"""Without it one process in a hundred aborts at its end, probe or no probe: seen with torch 2.13 and Gloo."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the probe of a test puts its files."""
    return tmp_path / "unhang-x"


def environment(folder: Path, port: int, *, world_size: int = 1, path: str = "") -> dict[str, str]:
    """Return the variables of a rank with the probe."""
    paths = os.pathsep.join(filter(None, (str(probe_path()), path)))
    return rank_environment(0, port=port, world_size=world_size, PYTHONPATH=paths, UNHANG_PROBE_DIR=str(folder))


def run(program: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    command = (sys.executable, "-c", program)
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


def run_in_fork(program: str, env: dict[str, str], folder: Path) -> None:
    """Run a program to its end in a fork; it must print nothing and end with status 0."""
    with forked(_WAITS + program + END, env=env, folder=folder):
        pass


_WAITS = """
import os
if os.fork():
    _, status = os.wait()
    print("ready" if status == 0 else status, flush=True)
    os._exit(0)
"""


@pytest.fixture
def free_port() -> int:
    """A port for a rendezvous."""
    return ports.free_port()


def test_rank_can_be_asked(folder: Path, free_port: int, tmp_path: Path) -> None:
    """Its record comes with members and descriptions; the socket is this user's alone."""
    program = WORK + READY + "time.sleep(600)"
    with forked(program, env=environment(folder, free_port), folder=tmp_path) as process:
        found = ask_source(RecorderSource(), rank_of(process.pid))
        paths = {path.name: path.stat() for path in folder.iterdir()}
    assert isinstance(found, Trace)
    groups = {group.description: group.members for group in found.groups}
    assert groups["alone"] == "0"
    assert [record.signature.op for record in found.records()] == ["all_reduce"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert paths.keys() == {f"{process.pid}.sock", f"{process.pid}.groups.json"}
    assert stat.S_IMODE(paths[f"{process.pid}.groups.json"].st_mode) == 0o600


def test_job_prints_and_leaves_nothing_more(folder: Path, free_port: int) -> None:
    """Not a line, not a file, not another status."""
    done = run(WORK + END + "print('done'); sys.exit(7)", environment(folder, free_port))
    assert (done.returncode, done.stdout, done.stderr) == (7, "done\n", "")
    assert list(folder.iterdir()) == []


def test_rank_without_the_server_class_runs_on(folder: Path, free_port: int, tmp_path: Path) -> None:
    """An older torch has none; the agent is told why."""
    hide = "import torch._C._distributed_c10d as c\ndel c._WorkerServer\n"
    program = hide + WORK + READY + "time.sleep(600)"
    with forked(program, env=environment(folder, free_port), folder=tmp_path) as process:
        error = json.loads((folder / f"{process.pid}.status.json").read_text())["error"]
    assert "_WorkerServer" in error


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_folder_that_others_may_enter_is_not_used(folder: Path, free_port: int, tmp_path: Path, mode: int) -> None:
    """Somebody else may have made it; the job runs on without a server."""
    folder.mkdir()
    folder.chmod(mode)
    run_in_fork(WORK, environment(folder, free_port), tmp_path)
    assert list(folder.iterdir()) == []


def test_sockets_left_behind_are_removed(folder: Path, free_port: int, tmp_path: Path) -> None:
    """Those on which nobody listens any more, and no others."""
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as living:
        dead.bind(str(folder / "1.sock"))
        dead.close()
        (folder / "1.groups.json").write_text("{}")
        living.bind(str(folder / "2.sock"))
        living.listen()
        run_in_fork(WORK, environment(folder, free_port), tmp_path)
    assert [path.name for path in folder.iterdir()] == ["2.sock"]


def test_child_that_ends_leaves_its_parents_socket(folder: Path, free_port: int, tmp_path: Path) -> None:
    """A fork inherits what its parent wanted done at the end."""
    fork = "import atexit\nif os.fork() == 0: atexit._run_exitfuncs(); os._exit(0)\nos.wait()\n"
    program = WORK + fork + READY + "time.sleep(600)"
    with forked(program, env=environment(folder, free_port), folder=tmp_path) as process:
        assert isinstance(ask_source(RecorderSource(), rank_of(process.pid)), Trace)


def test_data_loader_workers_open_nothing(folder: Path, free_port: int) -> None:
    """Neither forked nor spawned ones: they make no groups."""
    loader = """
from torch.utils.data import DataLoader
if __name__ == "__main__":
    for context in ("fork", "spawn"):
        assert len(list(DataLoader([1, 2, 3], num_workers=1, multiprocessing_context=context))) == 3
"""
    with running(WORK + loader + READY + "time.sleep(600)", env=environment(folder, free_port)) as process:
        names = {path.name for path in folder.iterdir()}
    assert names == {f"{process.pid}.sock", f"{process.pid}.groups.json"}


def test_nobody_sees_us_on_the_stack(folder: Path, free_port: int) -> None:
    """A rank that waits for the others in init_process_group shows torch's frames and its own."""
    ready = "print('ready', flush=True)\n"
    program = START.replace("dist.init", ready + "dist.init")
    with running(program, env=environment(folder, free_port, world_size=2)) as process:
        stacks = until(
            lambda: dump_stacks(ProcFs(), process.pid, find_program("py-spy"), native=False, deadline=Deadline(10)),
            lambda found: any("endezvous" in frame.function for frame in found.frames),
        )
    names = {Path(frame.file).name for frame in stacks.frames} | {frame.function for frame in stacks.frames}
    assert not [name for name in names if name.startswith(("unhang_", "sitecustomize"))]


def test_other_sitecustomize_is_run_too(folder: Path, tmp_path: Path) -> None:
    """The one that would have been imported without us, and none after it; one that fails, Python reports as ever."""
    says = "print({!r}, __name__)"
    for name, text in (("first", says), ("second", says), ("failing", "raise ValueError('theirs')")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sitecustomize.py").write_text(f"{text.format(name)}\n")
    path = os.pathsep.join(str(tmp_path / name) for name in ("first", "second"))
    done = run("import sitecustomize; print(sitecustomize.__file__)", environment(folder, 1, path=path))
    assert done.stdout.splitlines() == ["first sitecustomize", str(tmp_path / "first" / "sitecustomize.py")]
    done = run("print('on')", environment(folder, 1, path=str(tmp_path / "failing")))
    assert (done.stdout, "theirs" in done.stderr, "unhang" in done.stderr) == ("on\n", True, False)


def test_process_without_torch_loads_next_to_nothing(folder: Path) -> None:
    """Launchers, shells' helpers, compilers: each Python process of a job pays for this."""
    done = run("import sys; print(sorted(m for m in sys.modules if 'unhang' in m))", environment(folder, 1))
    assert done.stdout == "['unhang_probe']\n"
    assert not folder.exists()


def test_path_holds_the_probe_and_nothing_else() -> None:
    """It stands first on the path of other people's programs; jobs run older Pythons than we do, which can read it."""
    names = {path.name for path in probe_path().iterdir()} - {"__pycache__"}
    assert names == {"sitecustomize.py", "unhang_probe.py", "unhang_recorder.py"}
    for name in names:
        ast.parse((probe_path() / name).read_text(), feature_version=(3, 8))


@pytest.mark.parametrize(
    ("version", "nccl", "set_before", "expected"),
    [
        ("2.13.0+cpu", False, {}, {}),
        ("2.11.0", True, {}, {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}),
        ("2.10.0", False, {}, {"TORCH_FR_BUFFER_SIZE": "2000"}),
        ("2.10.0", False, {"TORCH_FR_BUFFER_SIZE": "0"}, {}),
        ("2.9.1", False, {"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}, {}),
        ("2.4.1", True, {}, {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}),
        ("2.4.1", True, {"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}, {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}),
        ("2.13.0", True, {"TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}, {}),
    ],
)
def test_variables_of_the_recorder(
    version: str, nccl: bool, set_before: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is unset, and only where the default leaves the recorder off."""
    for name in ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_FR_BUFFER_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in set_before.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    monkeypatch.syspath_prepend(str(probe_path()))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__=version))
    import unhang_recorder

    unhang_recorder._set_variables(SimpleNamespace(is_nccl_available=lambda: nccl))
    changed = {name: value for name, value in os.environ.items() if before.get(name) != value}
    for name in changed:
        del os.environ[name]  # monkeypatch would set it again at the end
    assert changed == expected


def test_job_that_is_killed_is_cleaned_up_by_the_next(folder: Path, free_port: int, tmp_path: Path) -> None:
    """SIGKILL leaves files, which the next rank removes."""
    program, env = WORK + READY + "time.sleep(600)", environment(folder, free_port)
    with forked(program, env=env, folder=tmp_path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert len(list(folder.iterdir())) == 2
        run_in_fork(WORK, env, tmp_path)
        assert list(folder.iterdir()) == []
