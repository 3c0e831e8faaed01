"""Text for a terminal: width and control characters, over all verdicts."""

import pytest

from collector.show.text.printable import display_width
from collector.show.text.text import render_text
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from tests.build.jobs.hostile import EVIL
from tests.build.jobs.verdicts import VERDICTS


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
