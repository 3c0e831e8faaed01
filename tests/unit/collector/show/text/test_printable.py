"""Foreign text made fit to print."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.show.text.printable import display_width, printable, shortened


@given(st.text())
def test_is_printable_whatever_comes(text: str) -> None:
    """Nothing that steers a terminal is left, and doing it twice changes nothing."""
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train.py", "train.py"),
        ("数据", "数据"),
        ("a\nb", "a\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\udcff", "\\udcff"),
        ("\u200b", "\\u200b"),
    ],
)
def test_escapes(text: str, shown: str) -> None:
    """Control, format and surrogate characters are written out, all others stand."""
    assert printable(text) == shown


def test_cuts_long_text() -> None:
    """A job can make nothing longer than its bound."""
    assert printable("x" * 10, most=4) == "xxx…"


def test_wide_characters_take_two_columns() -> None:
    """Columns are counted as a terminal shows them."""
    assert [display_width(text) for text in ("ab", "数据", "é", "e\u0301")] == [2, 4, 1, 1]


@pytest.mark.parametrize(
    ("path", "width", "shown"),
    [
        ("/opt/v/lib/python3.11/site-packages/torch/x.py", None, "torch/x.py"),
        ("/usr/lib/python3.12/selectors.py", None, "selectors.py"),
        ("/home/ann/site-packages.py", None, "/home/ann/site-packages.py"),
        ("/home/ann/project/train.py", 14, "…/train.py"),
        ("/home/ann/project/train.py", 30, "/home/ann/project/train.py"),
        ("averyveryverylongname.py", 10, "…ngname.py"),
    ],
)
def test_paths_lose_their_beginning(path: str, width: int | None, shown: str) -> None:
    """The end of a path tells most; whole names are kept where there is room."""
    assert shortened(path, width) == shown
