"""Names that jobs choose, in the commands that people are told to copy: real ranks, and each command run by a shell."""

import json
import os
import re
import shlex
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from agent.tools.core_notes import read_notes
from cli.sources.ssh_command import HostQuestion, Way
from collector.show.text.markdown import render_markdown
from collector.show.text.text import render_text
from shared.answer.diagnosis import Diagnosis, NextStep
from shared.shell_commands import MOST_CHARACTERS, copyable, listed
from tests.build.processes.commands import FIRST, NOBODY, SECOND, Job, environment, sleeping_job, unhang
from tests.build.processes.warm import Done, script
from tests.unit.agent.tools.test_core_file import STATUS, made_up

# A name that is an option where no `--` stands before it, and runs a command where no quote does.
HOSTILE = ("--output={folder}/written", "-o{folder}/written", "$(touch {folder}/written)'`touch {folder}/written`;#")


@pytest.fixture(params=HOSTILE, ids=["long-option", "short-option", "shell"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Job]:
    """Two ranks that sleep, of a job with such a name; `{folder}/written` must never come to be."""
    name = request.param.format(folder=tmp_path)
    with sleeping_job(name, (FIRST, SECOND), log=tmp_path / "ranks.log") as started:
        yield started
    assert not (tmp_path / "written").exists()


def in_shell(command: str, job: Job, folder: Path) -> Done:
    """Run a command as somebody who has copied it, `unhang` and its helpers being on the path."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "unhang").write_text(script())
    (programs / "unhang").chmod(0o755)
    env = environment(job.env)
    env["PATH"] = f"{programs}:{Path(sys.executable).parent}:{env['PATH']}"
    done = subprocess.run(["bash", "-c", command], env=env, cwd=folder, capture_output=True, text=True, timeout=60)
    return Done(done.returncode, done.stdout, done.stderr)


def commands_in(diagnosis: dict[str, object]) -> list[str]:
    """Return every command that a diagnosis holds, wherever it stands."""
    return re.findall(r'"command": ("(?:[^"\\]|\\.)*")', json.dumps(diagnosis))


@pytest.mark.slow
def test_every_suggested_command_is_about_the_job_and_writes_nothing(job: Job, tmp_path: Path) -> None:
    """The job is found by the very words that were printed."""
    done = unhang("diagnose", "--json", "--interval", "0", "--", job.name, env=job.env, cwd=tmp_path)
    commands = [json.loads(each) for each in commands_in(json.loads(done.out))]
    ours = [each for each in commands if each.startswith("unhang ") and "…" not in each]
    assert ours, done
    for each in ours:
        quick = re.sub(r"--interval \d+ --timeout \d+", "--interval 0 --timeout 30", each)
        ran = in_shell(quick, job, tmp_path)
        assert ran.status in (0, 10, 11, 12), (each, ran)
        assert "wait_for_quota" in ran.out or "rank" in ran.out, (each, ran)
        assert not (tmp_path / "written").exists(), each


@pytest.mark.parametrize("form", ["stacks", "diagnose --interval 0", "check", "logs", "fds", "sequences"])
def test_each_command_takes_a_job_behind_two_dashes(form: str, tmp_path: Path) -> None:
    """Options stand before, the name behind."""
    with sleeping_job(HOSTILE[0].format(folder=tmp_path), (FIRST,), log=tmp_path / "ranks.log") as job:
        command = copyable("unhang", *form.split(), operands=(job.name,))
        assert command is not None
        done = in_shell(command, job, tmp_path)
    assert done.status in (0, 10, 11, 12), done
    assert not (tmp_path / "written").exists()


def test_the_names_to_choose_from_are_single_words(tmp_path: Path) -> None:
    """Of several jobs one is to be named; a name with a dash is said to stand behind `--`."""
    with (
        sleeping_job("--output=x y", (FIRST,), log=tmp_path / "a.log"),
        sleeping_job("b", (NOBODY,), log=tmp_path / "b.log"),
    ):
        done = unhang("stacks", env={"UNHANG_AGENT_ONLY_RANKS": f"{FIRST},{NOBODY}"})
    assert done.status == 2
    assert "'--output=x y', b" in done.err
    assert "behind --" in done.err


@pytest.mark.parametrize(
    "name", ["a\nrm -rf x", "a\x1b[2Jb", "a\rb", "\u202etxt.exe", "a\u2028b", "a\x00b", "\u200b", "a\u00a0b", "\ud800"]
)
def test_a_name_that_does_not_print_is_in_no_command(name: str) -> None:
    """Agents leave such characters out of names; a hostile one does not."""
    assert copyable("unhang", "stacks", operands=(name,)) is None


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("slurm-4242", "unhang stacks -- slurm-4242"),
        ("--help", "unhang stacks -- --help"),
        ("--", "unhang stacks -- --"),
        ("", "unhang stacks -- ''"),
        ("a b", "unhang stacks -- 'a b'"),
        ("it's", r"unhang stacks -- it\'s"),
        ("$HOME`id`!x", r"unhang stacks -- '$HOME`id`'\!x"),
        ("a\\", r"unhang stacks -- a\\"),
        ("~root", "unhang stacks -- '~root'"),
        ("größe", "unhang stacks -- 'größe'"),
    ],
)
def test_a_shell_reads_the_name_as_it_is(name: str, command: str) -> None:
    """One word, behind the options, whatever it holds."""
    assert copyable("unhang", "stacks", operands=(name,)) == command
    told = subprocess.run(["bash", "-c", f'set -- {command}; printf %s "$4"'], capture_output=True, check=True)
    assert told.stdout.decode() == name


@pytest.mark.parametrize(
    "shell",
    ["sh", "bash", *(pytest.param(name, marks=pytest.mark.needs(name)) for name in ("fish", "tcsh"))],
)
@pytest.mark.parametrize(
    "job",
    ["x\\'\";touch written;#", "x\\';touch written;'", "!!;touch written", "a\ntouch written", "it's \\\\'a'", "$(id)"],
)
def test_no_name_ends_its_quotes_in_the_shell_of_another_host(shell: str, job: str, tmp_path: Path) -> None:
    """ssh hands the words to whatever shell the user has there: fish and csh read quotes in ways of their own."""
    remote = Way(remote="printf '%s|'").command("node1", HostQuestion(job=job))[-1]
    done = subprocess.run(
        [shell, "-c", remote],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    words = done.stdout.split("|")[:-1]
    assert words == HostQuestion(job=job).arguments()
    assert (f"--job={job}" in words) == job.isprintable()
    assert not (tmp_path / "written").exists()


def test_a_command_is_whole_or_not_at_all() -> None:
    """Where text is cut, a quote that is left open would take what is typed next."""
    assert copyable("unhang", operands=("x y" * MOST_CHARACTERS,)) is None
    assert len(listed(["a"] * 100)) == len("a, ") * 20 - 2


@pytest.mark.parametrize("render", [partial(render_text, colour=False, width=80), render_markdown])
def test_no_rendering_steers_a_terminal(render: Callable[[Diagnosis], str]) -> None:
    """What a foreign diagnosis holds is escaped, its commands too."""
    steps = (NextStep(text="see \x1b]0;x\x07\u202e it", command="echo \x1b[2J\nrm x"),)
    made = Diagnosis.model_validate(
        {"id": "x", "job": "j\x1b[2J", "made_at": "2026-01-01T00:00:00Z", "verdict": "not_hung", "headline": "h\x9b2J"}
    )
    text = render(made.model_copy(update={"next_steps": steps}))
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "\nrm x" not in text


def test_a_core_file_does_not_name_an_option_of_the_debugger(tmp_path: Path) -> None:
    """A file that lies beside the core, named as a command of gdb's; only whole paths are programs."""
    program = "-ex=shell touch written"
    (tmp_path / program).write_text("")
    mapped = struct.pack("<QQQQQ", 1, 4096, 4096, 8192, 0) + program.encode() + b"\0"
    (tmp_path / "core").write_bytes(made_up((1, STATUS), (6, struct.pack("<QQ", 3, 5000)), (0x46494C45, mapped)))
    with (tmp_path / "core").open("rb") as core:
        notes = read_notes(core.fileno())
    assert [file.path for file in notes.files] == [program]
    assert notes.executable is None
    assert "4242" in unhang("core", "core", cwd=tmp_path).out
    assert not (tmp_path / "written").exists()


def test_another_host_gets_the_name_as_a_value() -> None:
    """Over ssh the words go through a shell, and then to our own command line."""
    words = shlex.split(Way().command("node1", HostQuestion(job="--looks=9"))[-1])
    assert words[0] == "unhang"
    assert words[-1] == "--job=--looks=9"
