"""What every command says about itself, and how fast it starts."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from cli.commands import COMMANDS
from cli.main import unhang
from shared import VERSION
from tests.build.processes.commands import REPOSITORY, command, environment

NAMES = [str(each.name) for each in COMMANDS]
HEAVY = ("pydantic", "httpx", "fastapi", "uvicorn", "sqlalchemy", "asyncio")


def test_all_commands_are_there() -> None:
    """All commands, in the order in which help shows them."""
    wanted = (
        "agent check collector compare core diagnose fds history hooks incidents jobs logs look mcp notify plugins "
        "preflight probe-path rules run sequences silence snapshot stacks version watch"
    )
    assert wanted.split() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_help_tells_purpose_and_options(name: str) -> None:
    """Each command says in a sentence what it does, and each of its options has a help text."""
    result = CliRunner().invoke(unhang, [name, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: unhang {name}")
    chosen = unhang.commands[name]
    assert chosen.short_help
    assert len(chosen.short_help) < 60
    options = [each for each in chosen.params if isinstance(each, click.Option)]
    assert [each.name for each in options if not each.help] == []
    defaults = [each.default for each in options if each.default and isinstance(each.default, str | float | int)]
    shown = " ".join(result.output.split())
    assert [each for each in defaults if f"[default: {each}" not in shown] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name != "version"])
def test_help_gives_an_example(name: str) -> None:
    """Whoever reads the help can copy a line from it."""
    output = CliRunner().invoke(unhang, [name, "-h"]).output
    assert "Example" in output
    assert f"unhang {name}" in output.partition("Example")[2]


def test_help_of_all_names_where_to_begin() -> None:
    """The first page has the three ways to ask, and how to get completion."""
    output = CliRunner().invoke(unhang, ["--help"]).output
    assert all(text in output for text in ("--collector URL", "--from DIR", "_UNHANG_COMPLETE"))


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_version(arguments: list[str]) -> None:
    """Both ways tell it."""
    assert VERSION in CliRunner().invoke(unhang, arguments).output


@pytest.mark.parametrize("arguments", [["--help"], ["diagnose", "--help"], ["probe-path"], ["version"]])
def test_starts_without_anything_heavy(arguments: list[str]) -> None:
    """Help, `probe-path` and the like load no library that takes long; `run` is tested with its command."""
    check = f"import sys; from cli.main import run; run({arguments!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=REPOSITORY, env=environment(), capture_output=True, text=True
    )
    loaded = done.stderr.split()
    assert "cli.main" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_completion_knows_the_commands() -> None:
    """The shell gets the names from click."""
    asked = environment({"_UNHANG_COMPLETE": "bash_complete", "COMP_WORDS": "unhang di", "COMP_CWORD": "1"})
    done = subprocess.run(command(), env=asked, capture_output=True, text=True, timeout=60)
    assert "diagnose" in done.stdout
