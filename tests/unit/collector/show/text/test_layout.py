"""Lines keep to their width and lose nothing; no verdict steers a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.show.text.layout import Span, Style, fitted, labelled, line, paint, plain, wrap
from collector.show.text.printable import display_width, printable
from collector.show.text.text import render_text
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from tests.build.jobs.hostile import EVIL
from tests.build.jobs.verdicts import VERDICTS

WORDS = st.lists(st.text(alphabet="ab,/字", min_size=1, max_size=40), max_size=12).map(" ".join)


@given(WORDS, st.integers(8, 60))
def test_wrap_keeps_width_and_text(text: str, width: int) -> None:
    """No line is too wide, and all characters but the spaces between words are there."""
    lines = wrap(text, width)
    assert all(display_width(each) <= width for each in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@given(st.lists(st.tuples(WORDS, st.sampled_from(Style)), max_size=5), st.integers(12, 60))
def test_fitted_keeps_width_text_and_style(spans: list[tuple[str, Style]], width: int) -> None:
    """A line of several styles is folded like any other, each character in its style."""
    whole = tuple(Span(printable(text), style) for text, style in spans)
    parts = fitted([whole], width)
    assert all(display_width(text) <= width for text in plain(parts))
    before = [(char, span.style) for span in whole for char in span.text if char != " "]
    after = [(char, span.style) for part in parts for span in part for char in span.text if char != " "]
    assert after == before


def test_breaks_long_words_after_a_comma() -> None:
    """A rank set is read as ranks, so no number is torn apart."""
    assert wrap("10,11,12,13,14", 8) == ["10,11,", "12,13,14"]


def test_colour_only_where_asked_for() -> None:
    """Without colour there is no escape sequence; spaces are never painted."""
    lines = [(Span("a", Style.BAD), Span("  ", Style.LABEL), Span("b"))]
    assert paint(lines, colour=False) == "a  b\n"
    assert paint(lines, colour=True) == "\x1b[1;31ma\x1b[0m  b\n"


def test_label_stands_once() -> None:
    """The label is in the margin of the first line alone."""
    assert plain(labelled("in", [line("x"), line("y")], 4)) == ["in  x", "    y"]


@pytest.mark.parametrize("name", VERDICTS)
@pytest.mark.parametrize("width", [10, 40, 80, 133])
def test_keeps_to_the_width(name: str, width: int) -> None:
    """No line is wider than asked, or than the narrowest; commands are the exception, so that they can be copied."""
    lines = render_text(VERDICTS[name](), colour=False, width=width).splitlines()
    wide = [line for line in lines if display_width(line) > max(width, 40) and not line.lstrip().startswith("$ ")]
    assert wide == []


@pytest.mark.parametrize("name", VERDICTS)
def test_prints_nothing_that_steers_a_terminal(name: str) -> None:
    """Without colour every line is printable; with colour only colours are added."""
    plain = render_text(VERDICTS[name](), colour=False, width=80)
    assert all(line.isprintable() for line in plain.split("\n"))
    painted = render_text(VERDICTS[name](), colour=True, width=80)
    pieces = painted.split("\x1b[")
    assert all(piece.partition("m")[0].replace(";", "").isdigit() for piece in pieces[1:])


def test_headline_comes_first() -> None:
    """The first thing read is what matters."""
    said = VERDICTS["straggler"]()
    assert render_text(said, colour=False, width=len(said.headline)).startswith(f"{said.headline}\n")
    said = Diagnosis(verdict=Verdict.HUNG, headline=EVIL)
    assert render_text(said, colour=False, width=80).startswith("HUNG: ")
