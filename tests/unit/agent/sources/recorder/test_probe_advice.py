"""What somebody hears whose rank has no server that answers, by how its process was started."""

import sys
from pathlib import Path

import pytest

from agent.probe.path import probe_path
from agent.proc.procfs import ProcFs
from agent.sources.recorder.probe_advice import why_no_server
from tests.build.processes.looking import rank_of
from tests.build.processes.processes import SLEEP, running

pytestmark = pytest.mark.ptrace

PROBE = {"PYTHONPATH": f"/opt/other:{probe_path()}"}


MAPS_TORCH = (
    "import mmap\nopened = open('libtorch_cpu.so', 'rb')\nkept = mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)\n"
)


@pytest.mark.parametrize(
    ("options", "env", "has_group", "program", "words"),
    [
        ((), {}, False, "", "the rank has not loaded PyTorch"),
        ((), {"PYTHONPATH": "/opt/agent/probe/insides"}, False, "", "the rank has not loaded PyTorch"),
        ((), {}, False, MAPS_TORCH, "start the job with `unhang run"),
        (("-I",), PROBE, True, "", "Python with `-I`"),
        (("-W", "error", "-bE"), PROBE, False, "", "Python with `-bE`"),
        (("-WError",), PROBE, False, "", "calls init_process_group, which it has not done yet"),
        (("-X", "dev"), PROBE, True, "", "the rank has no server"),
    ],
)
def test_reason_fits(
    options: tuple[str, ...], env: dict[str, str], has_group: bool, program: str, words: str, tmp_path: Path
) -> None:
    """Who has started the job with the probe is not told to do so; jobs with PyTorch are offered it."""
    script = tmp_path / "train.py"
    script.write_text(program + SLEEP, encoding="ascii")
    (tmp_path / "libtorch_cpu.so").write_bytes(bytes(4096))
    with running(command=(sys.executable, *options, str(script), "-I"), env=env, cwd=tmp_path) as process:
        rank = rank_of(process.pid)._replace(has_group=has_group)
        assert words in why_no_server(ProcFs(), rank)
