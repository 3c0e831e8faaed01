"""`unhang core`: what a core file tells."""

from pathlib import Path
from typing import TYPE_CHECKING

from cli.command_table import command
from cli.terminal import answer

if TYPE_CHECKING:
    from shared.wire.debug_output import CoreReport


@command("core")
def core(file: Path, executable: Path | None, timeout: float, as_json: bool) -> None:
    """Tell what the core file FILE holds: the signal, all threads with Python and native frames, the likely story.

    gdb reads the native frames and pystack Python's; each is told as missing where it is not there. Read a core on
    the machine, or in the container, that it comes from: names come from the program and libraries there.
    """
    from cli.tables.core import core_table

    answer(_read(file, executable, timeout), as_json, core_table)


def _read(file: Path, executable: Path | None, timeout: float) -> "CoreReport":
    from agent.deadline import Deadline
    from agent.tools.core_file import find_programs, read_core
    from cli.core_story import tell_story
    from cli.sources.helpers import Helpers

    with Helpers():
        return tell_story(read_core(file, find_programs(), Deadline(timeout), executable=executable))
