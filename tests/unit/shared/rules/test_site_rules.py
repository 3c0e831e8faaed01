"""Rules of a site: read, held to their own examples, and each mistake told with its file and row."""

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from collector.align.stacks.tables.row_types import Doing
from shared.rules.site_rules import FrameRule, read_rules
from tests.system.packaging.environments import REPOSITORY

RULES = REPOSITORY / "tests" / "data" / "rules"

GOOD = """
[[lines]]
id = "one"
kind = "exception"
hint = "boom"
pattern = 'boom (?P<type>\\w+)'
matches = ["a boom today"]
never = ["no boom"]
origin = "here"
"""


def test_rules_of_a_site_are_read() -> None:
    """Each table, in its order."""
    found = read_rules(RULES)
    assert found.problems == ()
    assert [(one.table, one.row.id) for one in found.rows] == [
        ("lines", "acme-fabric-reset"),
        ("frames", "acme-lease"),
        ("secrets", "acme-token"),
        ("checks", "acme-lease-short"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('["a boom today"]', '["a bang today"]', "does not match 'a bang today', which `matches` says it does"),
        ('["no boom"]', '["boom no"]', "matches 'boom no', which `never` says it does not"),
        ("(?P<type>\\w+)", "(\\w+)+", "a repetition within a repetition may take hours"),
        ("(?P<type>\\w+)", "(", "no regular expression"),
        ('kind = "exception"', 'kind = "bad"', "kind: Input should be"),
        ('hint = "boom"', 'hint = "b"', "hint: String should have at least 4 characters"),
        ('origin = "here"', "", "origin: Field required"),
        ('origin = "here"', 'origin = "here"\nverdict = "hung"', "verdict: Extra inputs are not permitted"),
        ("[[lines]]", "[[line]]", "unknown table [[line]]; known are lines, kernel_lines, frames"),
        ("[[lines]]", "[[lines", "Expected"),
        ('id = "one"', 'id = "One of ours"', "id: String should match"),
    ],
)
def test_row_that_cannot_be_used_costs_itself(before: str, after: str, why: str, tmp_path: Path) -> None:
    """The others are used, and the message names file, table and row."""
    (tmp_path / "a.toml").write_text(GOOD.replace(before, after), encoding="utf-8")
    (tmp_path / "b.toml").write_text(GOOD.replace('"one"', '"two"'), encoding="utf-8")
    found = read_rules(tmp_path)
    assert [one.row.id for one in found.rows] == ["two"]
    (problem,) = found.problems
    assert problem.startswith(f"{tmp_path}/a.toml: ")
    assert why in problem


def test_an_id_is_taken_once(tmp_path: Path) -> None:
    """Whoever reads it in an explanation finds one row."""
    (tmp_path / "a.toml").write_text(GOOD + GOOD, encoding="utf-8")
    assert read_rules(tmp_path).problems == (f"{tmp_path}/a.toml: one: this id is taken",)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"lines = 3", b"lines = [3]", b"[lines]\nid = 4"])
def test_odd_files_are_told(content: bytes, tmp_path: Path) -> None:
    """They come from people, and from packages of others."""
    (tmp_path / "odd.toml").write_bytes(content)
    found = read_rules(tmp_path)
    assert found.rows == ()
    assert len(found.problems) == 1


def test_directory_without_rules_is_told(tmp_path: Path) -> None:
    """A mistyped name is not silence."""
    assert read_rules(tmp_path / "none").problems == (f"{tmp_path}/none: no such directory, or no *.toml in it",)


def test_rows_of_the_guide_are_these() -> None:
    """Whoever copies them from there has rules that work."""
    (shown,) = re.findall(
        r"```toml\n(\[\[lines.*?)```", (REPOSITORY / "docs" / "rules.md").read_text("utf-8"), re.DOTALL
    )
    assert tomllib.loads(shown) == tomllib.loads((RULES / "acme.toml").read_text("utf-8"))


@pytest.mark.parametrize("doing", list(Doing))
def test_words_of_frames_are_those_of_the_judge(doing: Doing) -> None:
    """All but the one that says that nothing is known."""
    row = {"id": "a", "matches": ["f (a.py:1)"], "never": ["g (a.py:1)"], "origin": "here"}
    row |= {"function": "^f$", "cause": "network", "label": "there", "doing": doing.value}
    if doing is Doing.UNKNOWN:
        with pytest.raises(ValidationError):
            FrameRule.model_validate(row)
    else:
        assert FrameRule.model_validate(row).doing == doing.value
