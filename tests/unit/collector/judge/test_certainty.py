"""How sure a finding is stands in one table: the rest of the judge names what supports it, and no certainty."""

import re
from pathlib import Path

import pytest

import collector.judge
from collector.judge.certainty import Support, how_sure
from shared.answer.words import Certainty, Kind

JUDGE = Path(collector.judge.__file__).parent
SOURCES = {path.relative_to(JUDGE).as_posix(): path.read_text() for path in sorted(JUDGE.rglob("*.py"))}


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "certainty.py"])
def test_nothing_but_the_table_says_how_sure_a_finding_is(name: str) -> None:
    assert not re.search(r"\bCertainty\.[A-Z]", SOURCES[name])


@pytest.mark.parametrize("support", Support)
def test_every_support_has_a_row_for_each_kind_and_is_the_support_of_something(support: Support) -> None:
    assert all(how_sure(kind, support).level in Certainty for kind in Kind)
    _, _, rules = SOURCES["certainty.py"].partition("def how_sure(")
    assert any(
        f"Support.{support.name}" in text for text in (*SOURCES.values(), rules) if text != SOURCES["certainty.py"]
    )
