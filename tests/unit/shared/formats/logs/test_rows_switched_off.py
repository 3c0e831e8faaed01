"""Every row of the tables of log lines is needed: without it, a line that it was made for is no longer read as it is.

A row that no line of a test needs is one that nobody would miss, or whose test is.
"""

import pytest

from shared.formats.logs import parse
from shared.formats.logs.rows_all import MATCHERS
from shared.packs import LineRow
from shared.wire.log_events import EventKind
from tests.unit.shared.formats.logs.test_parse import LINES, events


def is_read(line: str, kind: EventKind, fields: dict[str, str]) -> bool:
    """Is it found for what it is, with the parts that matter?"""
    return any(event.kind is kind and fields.items() <= event.fields.items() for event in events(line))


@pytest.mark.parametrize("row", MATCHERS, ids=[f"{row.kind}-{row.hint}" for row in MATCHERS])
def test_without_its_row_a_line_is_not_read(row: LineRow[EventKind], monkeypatch: pytest.MonkeyPatch) -> None:
    made_for = [(line, kind, fields) for line, kind, _, fields in LINES if row.hint in line]
    monkeypatch.setattr(parse, "MATCHERS", tuple(other for other in MATCHERS if other is not row))
    assert not all(is_read(*each) for each in made_for)
