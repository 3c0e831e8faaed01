"""Patterns of others: those that can take long are refused, and what is taken ends on any line."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.rules.pattern_cost import LONGEST_LINE, check_cost


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?P<op>\w+) took (?P<ms>\d+) ms on (?P<host>\S+)",
        r"\w+ \w+ \w+",
        r"rank (\d{1,7})(?:, rank \d)?: [^,]*, last at .*",
        r"[a-z]+[0-9]+[a-z]+",
        r"lost (?:link|carrier)\b",
        r"^\s*at (?!main)\w+",
        r"(?>a+)b",
        r"\d++x",
    ],
)
def test_ordinary_patterns_are_taken(pattern: str) -> None:
    """As people write them for a line."""
    check_cost(pattern)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a+)+$", "within a repetition"),
        (r"(a|a)*b", "choice within"),
        (r"(\w+\s?)*x", "within a repetition"),
        (r"(?:a{1,100}){1,100}b", "within a repetition"),
        (r"(a?){40}a{40}", "within a repetition"),
        (r".*foo.*bar", "may look"),
        (r"(.*)(.*)(.*)x", "may look"),
        (r"(?=a*a*a*b)", "may look"),
        (r"(x)?(?(1)a*|b*)", "condition"),
        (r"(?i)a+A+b", "both cases"),
        (r"(?s-i:a)(?i:a+A+)b", "both cases"),
        ("(", "no regular expression"),
        ("(" * 5000, "no regular expression"),
        ("a{99999999999999999999}", "no regular expression"),
    ],
)
def test_patterns_that_may_take_long_are_refused(pattern: str, why: str) -> None:
    """And the message says what to write."""
    with pytest.raises(ValueError, match=re.escape(why)):
        check_cost(pattern)


_PIECES = st.sampled_from(["a", r"\w", r"\d", "[ab]", "[^b]", ".", " ", "(?:a)", "(b)", "x"])
_REPEATS = st.sampled_from(["", "", "*", "+", "?", "{1,40}", "+?"])


@settings(max_examples=40)
@given(st.lists(st.tuples(_PIECES, _REPEATS), max_size=7), st.sampled_from(["a", "ab", "a ", "1", "xa"]))
def test_what_is_taken_ends(pieces: list[tuple[str, str]], repeated: str) -> None:
    """On lines made of what it likes, with an end that it does not: the worst that a job can write."""
    pattern = "".join(piece + repeat for piece, repeat in pieces) + "!"
    try:
        check_cost(pattern)
    except ValueError:
        return
    line = (repeated * LONGEST_LINE)[: LONGEST_LINE - 1] + "?"
    assert re.search(pattern, line) is None
