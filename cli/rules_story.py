"""What the rules, ours and a site's, take a line or a frame for."""

from collections.abc import Iterator

from pydantic import Field

from collector.align.stacks.tables.match_frames import FRAMES, NATIVE_FRAMES, frame_pattern
from collector.checks.environment import SETTINGS
from shared.formats.kernel_lines import KERNEL_MATCHERS, read_kernel_line
from shared.formats.logs.parse import clean_line, find_events
from shared.formats.logs.rows_all import MATCHERS
from shared.redaction.redact import redact
from shared.redaction.secret_shapes import SHAPES
from shared.rules.site_rules import FRAME, installed_rules
from shared.value import Value


class Recognised(Value):
    """What rules of one table take it for."""

    table: str
    means: str
    fields: dict[str, str] = Field(default_factory=dict)
    rule: str = ""
    """The id of a site's row that fits it, too, or alone."""


class Explanation(Value):
    """All that is made of one line."""

    taken: tuple[Recognised, ...] = ()
    nearly: tuple[str, ...] = ()
    """Hints of rows of log lines that it holds, and whose patterns do not match."""


def built_in() -> dict[str, int]:
    """Return how many rows of ours each table has."""
    all_of_them = {
        "lines": len(MATCHERS),
        "kernel_lines": len(KERNEL_MATCHERS),
        "frames": len(FRAMES),
        "native_frames": len(NATIVE_FRAMES),
        "secrets": len(SHAPES),
        "checks": len(SETTINGS),
    }
    for found in installed_rules().rows:
        all_of_them[found.table] -= 1
    return all_of_them


def explained(line: str) -> Explanation:
    """Say what a line, or a frame written as `FUNCTION (FILE:LINE)`, is taken for."""
    taken = tuple(_taken(line))
    clean = clean_line(line)
    nearly = [row.hint for row in MATCHERS if row.hint in clean and row.pattern.search(clean) is None]
    return Explanation(taken=taken, nearly=() if any(one.table == "lines" for one in taken) else tuple(nearly))


def _taken(line: str) -> Iterator[Recognised]:
    for event in find_events([line], path="", rank=None):
        yield Recognised(table="lines", means=event.kind.value, fields=event.fields, rule=_site("lines", line))
    kernel = read_kernel_line(line)
    if kernel is not None:
        fields = kernel.model_dump(mode="json", exclude={"kind", "text"}, exclude_defaults=True)
        of_text = {name: str(value) for name, value in fields.items()}
        yield Recognised(
            table="kernel_lines", means=kernel.kind.value, fields=of_text, rule=_site("kernel_lines", line)
        )
    frame = FRAME.match(line)
    for table, native in (("frames", False), ("native_frames", True)):
        row = None if frame is None else frame_pattern(frame["function"], frame["file"], native=native)
        if row is not None:
            yield Recognised(
                table=table, means=f"{row.label} ({row.doing.value}, cause {row.cause.value})", rule=_site(table, line)
            )
    if redact(line) != line:
        yield Recognised(table="secrets", means=f"shown as {redact(line)}", rule=_site("secrets", line))


def _site(table: str, line: str) -> str:
    return next((found.row.id for found in installed_rules().rows if found.table == table and found.row.fits(line)), "")
