"""A core file's report, for people."""

from cli.tables.deep_looks import threads_lines
from cli.tables.table import text
from collector.show.text.printable import printable
from shared.missing import Missing
from shared.plural import counted
from shared.wire.debug_output import CoreReport
from shared.wire.stacks import Stacks

_MOST_MISSING = 8


def core_table(report: CoreReport) -> str:
    """Return the story first, then what it rests on."""
    lines = [printable(report.story), ""]
    lines += [f"{label:<11}{printable(said)}" for label, said in _facts(report) if said]
    for name, part in (("Python", report.python), ("native", report.native)):
        lines += ["", f"{name} frames"]
        lines += _missing(part) if isinstance(part, Missing) else threads_lines(_whole(part))[1:]
    return text(lines)


def _facts(report: CoreReport) -> list[tuple[str, str]]:
    cut = f", {report.missing_bytes} bytes are cut off (see ulimit -c)" if report.missing_bytes else ""
    here = "" if report.executable_found else " (not here: name it with --exe)"
    signal = (
        f"{report.signal_name} to thread {report.thread}" if report.signal is not None else "none: it was still running"
    )
    return [
        ("file", f"{report.file}, {report.size_bytes} bytes{cut}"),
        ("process", f"pid {report.pid}: {report.command}" if report.pid is not None else report.command),
        ("signal", signal),
        ("program", "not named in the core" if report.executable is None else report.executable + here),
        ("libraries", f"{report.libraries} mapped, {_lost(report)}"),
    ]


def _lost(report: CoreReport) -> str:
    lost = report.libraries_missing
    if not lost:
        return "all are here"
    more = f" and {len(lost) - _MOST_MISSING} more" if len(lost) > _MOST_MISSING else ""
    return f"{counted(len(lost), 'file')} missing here: {', '.join(lost[:_MOST_MISSING])}{more}"


def _missing(part: Missing) -> list[str]:
    return [f"    {part.source} {part.reason}: {printable(part.detail)}"]


def _whole(stacks: Stacks) -> Stacks:
    """Leave out threads without frames: they say nothing in either list."""
    return stacks.model_copy(update={"threads": tuple(each for each in stacks.threads if each.frames)})
