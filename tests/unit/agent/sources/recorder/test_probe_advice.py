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


@pytest.mark.parametrize(
    ("options", "env", "has_group", "words"),
    [
        ((), {}, False, "the rank has not loaded PyTorch"),
        ((), {"PYTHONPATH": "/opt/agent/probe/insides"}, False, "the rank has not loaded PyTorch"),
        (("-I",), PROBE, True, "Python with `-I`"),
        (("-W", "error", "-bE"), PROBE, False, "Python with `-bE`"),
        (("-WError",), PROBE, False, "calls init_process_group, which it has not done yet"),
        (("-X", "dev"), PROBE, True, "the rank has no server"),
    ],
)
def test_reason_fits(
    options: tuple[str, ...], env: dict[str, str], has_group: bool, words: str, tmp_path: Path
) -> None:
    """Who has started the job with the probe is not told to do so."""
    script = tmp_path / "train.py"
    script.write_text(SLEEP, encoding="ascii")
    with running(command=(sys.executable, *options, str(script), "-I"), env=env) as process:
        rank = rank_of(process.pid)._replace(has_group=has_group)
        assert words in why_no_server(ProcFs(), rank)


def test_jobs_with_pytorch_are_offered_the_probe(tmp_path: Path) -> None:
    """Such as one whose Python brings PyTorch along as a library of its own."""
    script = tmp_path / "train.py"
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(bytes(4096))
    opened = f"import mmap\nopened = open({str(library)!r}, 'rb')\n"
    mapped = "kept = mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)\n"
    script.write_text(opened + mapped + SLEEP, encoding="ascii")
    with running(command=(sys.executable, str(script))) as process:
        assert "start the job with `unhang run" in why_no_server(ProcFs(), rank_of(process.pid))
