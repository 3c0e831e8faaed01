"""Text for a terminal: width and control characters, over all samples."""

import pytest

from collector.show.text.printable import display_width
from collector.show.text.text import render_text
from tests.build.jobs.samples import SAMPLES


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("width", [10, 40, 80, 133])
def test_keeps_to_the_width(name: str, width: int) -> None:
    """No line is wider than asked, or than the narrowest; commands are the exception, so that they can be copied."""
    lines = render_text(SAMPLES[name](), colour=False, width=width).splitlines()
    wide = [line for line in lines if display_width(line) > max(width, 40) and not line.lstrip().startswith("$ ")]
    assert wide == []


@pytest.mark.parametrize("name", SAMPLES)
def test_prints_nothing_that_steers_a_terminal(name: str) -> None:
    """Without colour every line is printable; with colour only colours are added."""
    plain = render_text(SAMPLES[name](), colour=False, width=80)
    assert all(line.isprintable() for line in plain.split("\n"))
    painted = render_text(SAMPLES[name](), colour=True, width=80)
    pieces = painted.split("\x1b[")
    assert all(piece.partition("m")[0].replace(";", "").isdigit() for piece in pieces[1:])


def test_headline_comes_first() -> None:
    """The first thing read is what matters."""
    assert render_text(SAMPLES["slow"](), colour=False, width=80).startswith("Slow: rank 3 keeps")
    assert render_text(SAMPLES["hostile"](), colour=False, width=80).startswith("HUNG: ")
