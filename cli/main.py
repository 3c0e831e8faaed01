"""`unhang`: all commands, and how errors and signals end them.

Status 0 to 12 as each command says; 1: it failed, with a message on stderr; 2: it was called wrongly; 130: Ctrl-C.
Modules of commands import nothing heavy, so that `unhang --help` and `unhang run` start at once.
"""

import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

import click

from cli.command_table import HELP_OPTIONS
from cli.commands import COMMANDS
from cli.terminal import escape
from shared import VERSION
from shared.errors import InvalidSettings, UnhangError
from shared.packs import add_rows_by

INTERRUPTED = 128 + signal.SIGINT
PIPE_CLOSED = 141
"""As a shell reports a program that SIGPIPE ended."""

_SEARCH_AFTER = (50_000, 20, 100)
"""Objects after which Python looks for garbage, instead of 700: what imports make stays, and so do looks at a job."""

_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


_READING = frozenset({"diagnose", "fds", "jobs", "logs", "look", "mcp", "sequences", "snapshot", "stacks", "watch"})
"""Commands that read about processes, unless told to ask elsewhere."""

_EXTRAS = {
    "alembic": "collector",
    "jinja2": "collector",
    "markupsafe": "collector",
    "mcp": "mcp",
    "sqlalchemy": "collector",
}
"""By a library's name, the extra that brings it: a node needs none of them."""


class Failure(click.ClickException):
    """One of our errors, as the command line tells it: what went wrong, and what to do about it."""

    def __init__(self, error: UnhangError) -> None:
        super().__init__(escape(str(error)))
        self.advice = escape(error.advice)

    def show(self, file: Any = None) -> None:
        """Print the message and the advice on stderr."""
        click.echo(f"unhang: {self.message}", file=file, err=True)
        if self.advice:
            click.echo(f"  {self.advice}", file=file, err=True)


class Unhang(click.Group):
    """The group of all commands; turns what they raise into messages and statuses."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except UnhangError as error:
            raise Failure(error) from error
        except ModuleNotFoundError as error:
            raise Failure(_lacking(error)) from error
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(PIPE_CLOSED)
        except OSError as error:  # of standard output, for the rest is told where it happens
            _forget_stdout()
            raise Failure(UnhangError(f"the answer cannot be written: {error.strerror or error}")) from error


def _lacking(error: ModuleNotFoundError) -> UnhangError:
    """Say which extra has the library that was not found. Raises what it was given for any other."""
    library = (error.name or "").partition(".")[0]
    if library not in _EXTRAS:
        raise error
    return InvalidSettings(
        f"the package `{library}` is not installed", advice=f"pip install 'unhang[{_EXTRAS[library]}]'"
    )


EPILOG = """\b
Start here:
  unhang diagnose                      the only job on this machine
  unhang diagnose JOB --collector URL  a job on a cluster
  unhang diagnose --from DIR           dumps and logs of a job that is gone

Completion in bash: eval "$(_UNHANG_COMPLETE=bash_source unhang)"; zsh_source and fish_source for the others."""


@click.group(
    cls=Unhang,
    commands={str(command.name): command for command in COMMANDS},
    epilog=EPILOG,
    context_settings={**HELP_OPTIONS, "max_content_width": 100},
)
@click.option(
    "--rules",
    "folders",
    metavar="DIR",
    multiple=True,
    type=click.Path(file_okay=False, exists=True),
    help="Rules of your site: docs/rules.md. May be repeated. [env: UNHANG_RULES]",
)
@click.version_option(VERSION, prog_name="unhang", message="%(prog)s %(version)s")
def unhang(folders: tuple[str, ...]) -> None:
    """Find the rank that hung a distributed training job, where it is now, and what proves it."""
    if folders:
        os.environ["UNHANG_RULES"] = os.pathsep.join(map(os.path.abspath, folders))
    add_rows_by(_rows_of_the_site)


def _rows_of_the_site(pack: str, table: str) -> list[dict[str, Any]]:
    from shared.rules.site_rules import rows_beside  # with the first pack that is read: most commands need none

    return rows_beside(pack, table)


def main() -> NoReturn:
    """Run the command line of this process and exit, both with few searches for garbage, a sixth of their cost."""
    gc.set_threshold(*_SEARCH_AFTER)
    _open_what_was_closed()
    status = _run_apart(sys.argv[1:])
    gc.freeze()
    if status > 128:
        # Python would end itself by SIGINT instead where the interrupt came in the midst of an `eval`, as in imports:
        # https://github.com/python/cpython/blob/v3.11.0/Python/pythonrun.c#L1710 (run_eval_code_obj)
        os._exit(status)
    sys.exit(status)


def _run_apart(arguments: list[str]) -> int:
    """Run what reads about processes in a child process, so that none of them can keep the prompt from coming back."""
    if next((word for word in arguments if word in unhang.commands), "") not in _READING:
        return run(arguments)
    from agent.tools.thin_parent import run_in_child

    return run_in_child(lambda: run(arguments))


def _open_what_was_closed() -> None:
    """A shell's `>&-` leaves no stream at all: let what would be written there go nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the end


def run(arguments: list[str]) -> int:
    """Run one command line and return its status."""
    ended_by = _end_as_ctrl_c_does()
    try:
        status = unhang.main(args=arguments, prog_name="unhang", standalone_mode=False, obj=ended_by)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 128 + ended_by[0] if ended_by else INTERRUPTED
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    return int(status) if isinstance(status, int) else 0


def _end_as_ctrl_c_does() -> list[int]:
    """Let SIGTERM and SIGHUP clean up as Ctrl-C does; return the list in which the signal will stand."""
    seen: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        seen.append(number)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun by a script's `&`
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    for number in _ENDING_SIGNALS:
        with suppress(ValueError):  # not in the main thread, as in tests
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, interrupt)
    return seen


def _forget_stdout() -> None:
    """Let nothing that is still buffered complain at exit that nobody reads it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
