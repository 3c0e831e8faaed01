"""`unhang core`: JSON, text, and files that are none."""

import json
from pathlib import Path

from click.testing import CliRunner

from cli.core_story import tell_story
from cli.main import unhang as unhang_group
from cli.tables.core import core_table
from shared.missing import Missing, Reason
from shared.wire.debug_output import CoreReport
from shared.wire.stacks import Frame, Stacks, Thread
from tests.unit.agent.tools.test_core_file import STATUS, made_up

NOTHING = Missing(source="pystack", reason=Reason.NOT_FOUND, detail="pystack is not installed")


def native(*functions: str) -> Stacks:
    """One thread in these functions, outermost first."""
    frames = tuple(Frame(name, "libtorch_cuda.so", 0, native=True) for name in functions)
    return Stacks(pid=7, frames=frames, threads=(Thread(tid=9, frames=tuple(range(len(frames)))),))


def died(signal: int, name: str, *functions: str) -> CoreReport:
    """A core of a process whose thread 9 got a signal in these functions."""
    report = CoreReport(
        file="core", size_bytes=1, pid=7, signal=signal, signal_name=name, thread=9, python=NOTHING, native=NOTHING
    )
    return tell_story(report.model_copy(update={"native": native(*functions)}))


def test_json_and_text(tmp_path: Path) -> None:
    """A core of notes alone: no tool makes sense of it, and that is told beside what the notes say."""
    core = tmp_path / "core\x1b[2J"
    core.write_bytes(made_up((1, STATUS)))
    result = CliRunner().invoke(unhang_group, ["core", "--json", str(core)])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert (answer["signal_name"], answer["thread"]) == ("SIGSEGV", 4242)
    assert answer["python"]["reason"]
    text = CliRunner().invoke(unhang_group, ["core", str(core)]).stdout
    assert text.startswith("SIGSEGV: it accessed memory that it does not own")
    assert "\x1b" not in text


def test_no_core(tmp_path: Path) -> None:
    """One sentence, one advice, status 1."""
    (tmp_path / "x").write_text("no core")
    result = CliRunner().invoke(unhang_group, ["core", str(tmp_path / "x")])
    assert result.exit_code == 1
    assert "not an ELF core file" in result.stderr


def test_stories() -> None:
    """The watchdog's abort is told from an assertion and from a plain abort; the frame is named."""
    watchdog = died(6, "SIGABRT", "c10d::ProcessGroupNCCL::Watchdog::run", "std::terminate()", "abort")
    assert "watchdog ended it" in watchdog.story
    assert watchdog.cause == "communication"
    assert "(thread 9)" in watchdog.story
    assert "an assertion" in died(6, "SIGABRT", "main", "__GI___assert_fail", "abort").story
    assert "it aborted" in died(6, "SIGABRT", "os_abort", "abort").story
    assert "/dev/shm" in died(7, "SIGBUS", "memcpy").story
    assert "a signal ended it" in died(40, "signal 40", "main").story


def test_what_is_lost_is_told() -> None:
    """The program, libraries, and bytes that are not here."""
    report = died(11, "SIGSEGV", "main").model_copy(
        update={"missing_bytes": 5, "executable": "/opt/python", "libraries": 3, "libraries_missing": ("/opt/a.so",)}
    )
    text = core_table(report)
    assert "5 bytes are cut off" in text
    assert "/opt/python (not here" in text
    assert "1 file missing here: /opt/a.so" in text
    assert "pystack not_found: pystack is not installed" in text
