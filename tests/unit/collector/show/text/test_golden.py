"""Verdicts of the real judge as they are shown, whole. `UNHANG_WRITE_GOLDEN=1 pytest tests/unit/collector/show/text`
writes the files again."""

import os
from pathlib import Path

import pytest

from collector.show.text.markdown import render_markdown
from collector.show.text.text import render_text
from shared.answer.words import Kind, Verdict
from tests.build.jobs.verdicts import VERDICTS

GOLDEN = Path(__file__).with_name("golden")
WRITE = os.environ.get("UNHANG_WRITE_GOLDEN") == "1"


def check(name: str, text: str) -> None:
    """Compare `text` with a golden file, or write that file."""
    file = GOLDEN / name
    if WRITE:
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{name} differs; see the head of this module"


@pytest.mark.parametrize("name", VERDICTS)
@pytest.mark.parametrize("width", [80, 120])
def test_text(name: str, width: int) -> None:
    """The text for a terminal stays as it is."""
    check(f"{name}.{width}.txt", render_text(VERDICTS[name](), colour=False, width=width))


@pytest.mark.parametrize("name", VERDICTS)
def test_markdown(name: str) -> None:
    """The Markdown for a ticket stays as it is."""
    check(f"{name}.md", render_markdown(VERDICTS[name]()))


def test_colours() -> None:
    """Colours are where they help, and nowhere else."""
    text = render_text(VERDICTS["rank_not_joined"](), colour=True, width=100)
    check("rank_not_joined.ansi", text.replace("\x1b", "^["))


def test_they_hold_every_kind_and_verdict() -> None:
    """A kind that is added gets a job that the judge says it of."""
    made = [make() for make in VERDICTS.values()]
    assert {finding.kind for each in made for finding in each.findings} == set(Kind)
    assert {each.verdict for each in made} == set(Verdict)


def test_no_golden_file_is_left_over() -> None:
    """A verdict that is renamed takes its files with it."""
    made = {f"{name}.{end}" for name in VERDICTS for end in ("80.txt", "120.txt", "md")} | {"rank_not_joined.ansi"}
    assert {file.name for file in GOLDEN.iterdir()} == made
