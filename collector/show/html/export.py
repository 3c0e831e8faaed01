"""What other viewers read: stacks for speedscope, sequence lanes for Perfetto; the one file holds them as links."""

import base64
import json
from dataclasses import dataclass

from markupsafe import Markup

from collector.show.html.report import Report
from collector.show.text.stacks import speedscope

_MOST_BYTES = 192 * 1024
"""Of one export within a page; a larger one is made by the command line."""


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
        value = speedscope(report.tree.root, name=report.diagnosis.job or "")
        about = "merged stacks, for speedscope"
        exports.append(_export("job.speedscope.json", about, value, "unhang stacks --format speedscope"))
    if report.timeline is not None:
        timeline = report.timeline.model_dump(mode="json", by_alias=True)
        about = "operations on a time line, for Perfetto or chrome://tracing"
        exports.append(_export("job.perfetto.json", about, timeline, "unhang sequences --format perfetto"))
    return tuple(exports)


def _export(name: str, about: str, value: object, command: str) -> Export:
    text = json.dumps(value, separators=(",", ":")).encode()
    link = None
    if len(text) <= _MOST_BYTES:
        link = Markup("data:application/json;base64," + base64.b64encode(text).decode())
    return Export(name, about, link, command)
