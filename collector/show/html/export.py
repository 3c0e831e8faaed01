"""What other viewers read: stacks for speedscope, sequence lanes for Perfetto; the one file holds them as links."""

import base64
import json
from dataclasses import dataclass

from markupsafe import Markup

from collector.keep.kept import Kept
from collector.show.html.report import Report
from collector.show.text.stacks import speedscope
from collector.show.timeline import view_timeline
from collector.show.views import only
from shared.wire.trace import Trace

_MOST_BYTES = 192 * 1024
"""Of one export within a page; a larger one is made by the command line."""


_MOST_RECORDS = 20_000
"""Of an export within a page: more would not fit, and take seconds to write."""

_TIMELINE = "operations on a time line, for Perfetto or chrome://tracing"
_MAKE_TIMELINE = "unhang sequences --format perfetto"


@dataclass(frozen=True)
class Export:
    """A file to save. `link` None: it is too large to be held in the page."""

    name: str
    about: str
    link: Markup | None
    command: str


def exports_of(report: Report) -> tuple[Export, ...]:
    """Return the files that a page can give, as far as its report has what they need."""
    exports = []
    if report.tree is not None and report.tree.tree:
        value = speedscope(report.tree.tree, name=report.diagnosis.job or "")
        about = "merged stacks, for speedscope"
        exports.append(_export("job.speedscope.json", about, value, "unhang stacks --format speedscope"))
    records = _records(report.kept)
    if 0 < records <= _MOST_RECORDS:
        snapshots = only(report.kept.snapshots, report.kept.expected, ranks=None)
        timeline = view_timeline(snapshots, report.kept.expected).model_dump(mode="json", by_alias=True)
        exports.append(_export("job.perfetto.json", _TIMELINE, timeline, _MAKE_TIMELINE))
    elif records:
        exports.append(Export("job.perfetto.json", _TIMELINE, None, _MAKE_TIMELINE))
    return tuple(exports)


def _records(kept: Kept) -> int:
    """Return how many operations are on record."""
    looks = (look for snapshot in kept.snapshots for look in snapshot.ranks)
    return sum(len(look.recorder) for look in looks if isinstance(look.recorder, Trace))


def _export(name: str, about: str, value: object, command: str) -> Export:
    text = json.dumps(value, separators=(",", ":")).encode()
    link = None
    if len(text) <= _MOST_BYTES:
        link = Markup("data:application/json;base64," + base64.b64encode(text).decode())
    return Export(name, about, link, command)
