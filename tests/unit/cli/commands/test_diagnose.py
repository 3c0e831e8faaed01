"""`unhang diagnose`: statuses, and that standard output holds the answer and nothing else."""

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.commands.diagnose import STATUS
from cli.main import unhang as unhang_group
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from tests.build.processes.commands import (
    FIRST,
    NOBODY,
    OTHER,
    REPOSITORY,
    Job,
    command,
    environment,
    sleeping_job,
    started,
    unhang,
    unhang_on_terminal,
)

CASE = REPOSITORY / "tests" / "data" / "cases" / "missing_rank2"
QUICK = ("--interval", "0.2")


def test_every_verdict_has_its_status() -> None:
    """The statuses are an API."""
    assert STATUS == {"not_hung": 0, "hung": 10, "died": 10, "slow": 11, "cannot_tell": 12}
    assert set(STATUS) == {verdict.value for verdict in Verdict}


def test_from_a_directory() -> None:
    """Dumps of a job that is gone, judged for people."""
    done = unhang("diagnose", "--from", str(CASE))
    assert (done.status, done.err) == (10, "")
    assert done.out.startswith("Hung: rank 2 has not joined")
    assert "\x1b" not in done.out


def test_json_is_the_object_and_nothing_else() -> None:
    """One JSON document on stdout, which is the contract; nothing on stderr."""
    done = unhang("diagnose", "--from", str(CASE), "--json")
    assert (done.status, done.err) == (10, "")
    assert Diagnosis.model_validate_json(done.out).findings[0].culprit_ranks == (2,)
    assert list(json.loads(done.out)) == list(Diagnosis.model_fields)


def test_live_ranks_in_json(job: Job) -> None:
    """On this machine too, and `-v` goes to stderr."""
    done = unhang("diagnose", "--json", "-v", *QUICK, env=job.env)
    assert done.status == 12
    answer = Diagnosis.model_validate_json(done.out)
    assert answer.coverage.with_stacks == 2
    assert "look 2" in done.err


def test_markdown_and_output(tmp_path: Path) -> None:
    """A ticket in a file: nothing on stdout, the place on stderr."""
    file = tmp_path / "ticket.md"
    done = unhang("diagnose", "--from", str(CASE), "--markdown", "--output", str(file))
    assert (done.status, done.out) == (10, "")
    assert str(file) in done.err
    assert file.read_text(encoding="utf-8").startswith("**Hung: rank 2")


def test_save_keeps_what_it_rests_on(tmp_path: Path, job: Job) -> None:
    """The bundle gives the same verdict again, and its ranks' stacks."""
    live = unhang("diagnose", "--json", "--save", str(tmp_path), *QUICK, env=job.env)
    (bundle,) = tmp_path.iterdir()
    assert str(bundle) in live.err
    again = unhang("diagnose", "--from", str(bundle), "--json")
    first, second = (Diagnosis.model_validate_json(done.out) for done in (live, again))
    assert (first.verdict, first.headline) == (second.verdict, second.headline)
    assert "wait_for_quota" in unhang("stacks", "--from", str(bundle)).out


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--from", "{empty}"], 1, "there are no files"),
        (["--from", "{gone}"], 1, "does not exist"),
        (["no-such-job", "--from", "{case}"], None, ""),
        (["--json", "--markdown"], 2, "cannot be combined"),
        (["--from", "x", "--collector", "y"], 2, "cannot be combined"),
        (["--looks", "0"], 2, "--looks"),
        (["--interval", "long"], 2, "--interval"),
        (["a", "b"], 2, "unexpected"),
        (["--nope"], 2, "--nope"),
        (["--collector", "ftp://x"], 1, "is not a collector's URL"),
        (["--collector", "http://x", "--token-file", "{gone}"], 1, "token file"),
        (["--from", "{case}", "--output", "/proc/x/y"], 1, "cannot be written"),
    ],
)
def test_wrong_input(arguments: list[str], status: int | None, said: str, tmp_path: Path) -> None:
    """A sentence on stderr, nothing on stdout, 1 for what failed and 2 for a wrong call."""
    (tmp_path / "empty").mkdir()
    places = {"empty": tmp_path / "empty", "gone": tmp_path / "gone", "case": CASE}
    result = CliRunner().invoke(unhang_group, ["diagnose", *(text.format(**places) for text in arguments)])
    if status is not None:
        assert (result.exit_code, result.stdout) == (status, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_directory_without_anything_of_use(tmp_path: Path) -> None:
    """Files that cannot be used are told, not hidden."""
    (tmp_path / "trace.bin").write_bytes(bytes(range(256)) * 8)
    done = unhang("diagnose", "--from", str(tmp_path), "--json")
    answer = Diagnosis.model_validate_json(done.out)
    assert done.status == 12
    assert answer.coverage.missing


def test_no_ranks() -> None:
    """Nobody to look at is said, with what makes a rank."""
    done = unhang("diagnose", env={"UNHANG_AGENT_ONLY_RANKS": str(NOBODY)})
    assert (done.status, done.out) == (1, "")
    assert "no ranks were found" in done.err


def test_unknown_job(job: Job) -> None:
    """The jobs that are there are named, whatever they are called."""
    done = unhang("diagnose", "nope\x1b[2J", env=job.env)
    assert (done.status, done.out) == (1, "")
    assert "nope" in done.err
    assert "$(reboot)" in done.err
    assert "\x1b" not in done.err


def test_several_jobs(job: Job, tmp_path: Path) -> None:
    """Without a name it is not guessed which one is meant: a wrong call, with the names."""
    with sleeping_job("other", (OTHER,), log=tmp_path / "log") as other:
        both = {"UNHANG_AGENT_ONLY_RANKS": f"{FIRST}-{OTHER}"}
        done = unhang("diagnose", env=both)
        assert (done.status, done.out) == (2, "")
        assert "2 jobs are running" in done.err
        assert "other" in done.err
        assert unhang("diagnose", other.name, "--json", *QUICK, env=both).status == 12


def test_without_py_spy(job: Job, tmp_path: Path) -> None:
    """The rest is told all the same; stacks come from pystack where that is there, else it is said what is missing."""
    env = {**job.env, "PATH": "", "UNHANG_AGENT_PY_SPY": str(tmp_path / "gone")}
    done = unhang("diagnose", *QUICK, env=env)
    assert done.status == 12
    assert "wait_for_quota" in done.out or "py-spy is not installed" in " ".join(done.out.split())


@pytest.mark.root
def test_without_the_right_to_trace(job: Job) -> None:
    """What the kernel refuses is told as such, and no traceback."""
    assert shutil.which("setpriv"), "util-linux is there"
    bare = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", *command("diagnose", *QUICK)]
    done = subprocess.run(bare, env=environment(job.env), capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 12)
    assert "CAP_SYS_PTRACE" in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr


def test_colour_is_for_terminals() -> None:
    """Coloured on a terminal unless NO_COLOR says otherwise; in a pipe only when asked for."""
    arguments = ("diagnose", "--from", str(CASE))
    assert "\x1b[1;31m" in unhang_on_terminal(*arguments)
    assert "\x1b" not in unhang_on_terminal(*arguments, env={"NO_COLOR": "1"})
    assert "\x1b" not in unhang_on_terminal(*arguments, "--color", "never")
    assert "\x1b[1;31m" in unhang(*arguments, "--color", "always").out


def test_width_of_the_terminal() -> None:
    """Lines fit the screen, but for commands to copy, which stay whole."""
    shown = unhang_on_terminal("diagnose", "--from", str(CASE), "--color", "never", executed=True)
    assert max(len(line) for line in shown.splitlines() if not line.lstrip().startswith("$ ")) <= 80


def test_progress_is_for_terminals(job: Job) -> None:
    """On a terminal one line that is wiped at the end."""
    shown = unhang_on_terminal("diagnose", *QUICK, env=job.env)
    before, _, after = shown.rpartition("\r\x1b[K")
    assert "looking" in before or "look 2" in before
    assert "Cannot tell" in after


def test_ascii_terminal() -> None:
    """Where standard output takes ASCII alone, arrows become plain characters and nothing fails."""
    done = unhang("diagnose", "--from", str(CASE), env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.status == 10
    assert done.out.isascii()
    assert "ranks 0-1,3 > all_reduce" in done.out


def test_a_page_is_written_beside_the_report(tmp_path: Path) -> None:
    """The text is printed as without it; the file holds the verdict, and needs nothing else."""
    file = tmp_path / "hang.html"
    done = unhang("diagnose", "--from", str(CASE), "--html", str(file))
    assert done.status == 10
    assert done.out.startswith("Hung: rank 2 has not joined")
    assert done.err == f"page written to {file}\n"
    page = file.read_text("utf-8")
    assert page.startswith("<!doctype html>") and "Hung: rank 2 has not joined" in page
    assert "job.perfetto.json" in page


def test_watching_needs_a_live_job() -> None:
    """Files do not change, and one file is written once."""
    done = unhang("diagnose", "--from", str(CASE), "--watch")
    assert done.status == 2
    assert "cannot be combined with --from" in done.err


def test_watching_shows_one_verdict_after_the_other(job: Job) -> None:
    """In a pipe one below the other, as JSON one per line; it ends by a signal."""
    with started("diagnose", "--watch", "--json", "--timeout", "10", *QUICK, env=job.env) as watching:
        seen = [Diagnosis.model_validate_json(watching.stdout.readline()) for _ in range(2)]
        watching.send_signal(signal.SIGTERM)
        assert watching.wait() == 143
    assert seen[0].id < seen[1].id
