"""The page about the checks names each of them, with the severities that it can have."""

import re
from pathlib import Path

from shared.answer.checks import CheckId, Severity
from tests.unit.collector.checks.test_all import SPOILT

PAGE = (Path(__file__).parents[4] / "docs" / "checks.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", PAGE, re.MULTILINE))


def test_every_check_stands_in_the_page() -> None:
    """In the order of the enumeration, which is the API's."""
    assert list(ROWS) == [each.value for each in CheckId]


def test_severities_are_those_of_the_page() -> None:
    """What the tests see a check say is what the page says of it; and each check is seen."""
    words = {each.value for each in Severity}
    assert all(set(told.split(", ")) <= words for told in ROWS.values())
    for _, what, severity, *_ in SPOILT.values():
        assert severity in ROWS[what].split(", ")
    assert {CheckId(what) for _, what, *_ in SPOILT.values()} == set(CheckId) - {CheckId.SITE_RULE}
