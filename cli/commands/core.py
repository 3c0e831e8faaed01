"""`unhang core`: what a core file tells."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.options import json_option
from cli.terminal import emit, emit_json

if TYPE_CHECKING:
    from shared.wire.debug_output import CoreReport


@click.command(
    short_help="Show what a core file holds.",
    epilog="""\b
Examples:
  unhang core core.4711
  unhang core core.4711 --exe /opt/venv/bin/python3.11 --json
  gcore -o rank3 4711 && unhang core rank3.4711     of a process that still hangs

Status: 0; 1 where the file cannot be read; 2 usage.""",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--exe",
    "executable",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The program, if it is not where the core says.",
)
@click.option("--timeout", type=click.FloatRange(1, 3600), default=120.0, show_default=True, help="Total seconds.")
@json_option
def core(file: Path, executable: Path | None, timeout: float, as_json: bool) -> None:
    """Tell what the core file FILE holds: the signal, all threads with Python and native frames, the likely story.

    gdb reads the native frames and pystack Python's; each is told as missing where it is not there. Read a core on
    the machine, or in the container, that it comes from: names come from the program and libraries there.
    """
    report = _read(file, executable, timeout)
    if as_json:
        emit_json(report)
        return
    from cli.tables.core import core_table

    emit(core_table(report))


def _read(file: Path, executable: Path | None, timeout: float) -> "CoreReport":
    from agent.deadline import Deadline
    from agent.tools.core_file import find_programs, read_core
    from cli.core_story import tell_story
    from cli.sources.helpers import Helpers

    with Helpers():
        return tell_story(read_core(file, find_programs(), Deadline(timeout), executable=executable))
