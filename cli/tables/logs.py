"""Log lines with the rank that wrote them."""

from cli.tables.table import table, text
from collector.show.text.printable import printable
from collector.show.views import LogsView


def lines_table(view: LogsView) -> str:
    """Return each line as `[host:rank] text`; lines of different files are kept apart by the file's name."""
    lines: list[str] = []
    before: tuple[object, ...] = ()
    for each in view.lines:
        now = (each.host, each.rank, each.path)
        if now != before:
            lines.append(f"==> {printable(each.path)} <==")
        before = now
        lines.append(printable(str(each)))
    return text(lines or ["no log has any lines"])


def events_table(view: LogsView) -> str:
    """Return what was recognised in the logs."""
    rows = [("-" if e.rank is None else str(e.rank), e.kind.value, e.text) for e in view.events]
    return text(table(("RANK", "EVENT", "LINE"), rows)) if rows else "nothing was recognised in the logs\n"
