"""How sure a finding is stands in one table: the rest of the judge names what supports it, and no certainty."""

import re
from pathlib import Path

import pytest

import collector.judge
from collector.judge.certainty import TABLE, Support, Sure, how_sure
from collector.judge.fault_rows import ROWS
from shared.answer.words import Certainty, Kind
from tests.build.jobs.judged import sources_of
from tests.build.jobs.verdicts import VERDICTS

JUDGE = Path(collector.judge.__file__).parent
SOURCES = {path.relative_to(JUDGE).as_posix(): path.read_text() for path in sorted(JUDGE.rglob("*.py"))}


def test_nothing_but_the_table_says_how_sure_a_finding_is() -> None:
    assert [name for name, text in SOURCES.items() if re.search(r"\bCertainty\.[A-Z]", text)] == ["certainty.py"]


@pytest.mark.parametrize("support", Support)
def test_every_support_has_a_row_for_each_kind_and_is_the_support_of_something(support: Support) -> None:
    assert all(how_sure(kind, support).level in Certainty for kind in Kind)
    _, _, rules = SOURCES["certainty.py"].partition("def how_sure(")
    named = any(f"Support.{support.name}" in text for name, text in SOURCES.items() if name != "certainty.py")
    rows = (row for table in ROWS.values() for row in table)
    assert named or f"Support.{support.name}" in rules or any(row["support"] == support.name.lower() for row in rows)


@pytest.mark.parametrize("row", TABLE.values(), ids=[f"{kind or 'any'}-{support.name}" for kind, support in TABLE])
def test_each_row_claims_as_many_sources_as_its_sentence(row: Sure) -> None:
    claims_two = re.search(r"\band\b.*\b(agree|what for|is nowhere|does not answer|the same)|\bagree, or\b", row.reason)
    assert (row.sources > 1) == bool(claims_two), row.reason
    assert row.sources == 1 or row.level is Certainty.SUPPORTED
    assert [each.reason for each in TABLE.values()].count(row.reason) == 1


@pytest.mark.parametrize("name", VERDICTS)
def test_a_finding_rests_on_as_many_sources_as_its_row_claims(name: str) -> None:
    """`judged` holds every verdict of the other tests to the same."""
    rows = {row.reason: row for row in TABLE.values()}
    for finding in VERDICTS[name]().findings:
        row = rows[finding.certainty_reason]
        assert finding.certainty is row.level
        assert sources_of(finding) >= row.sources
