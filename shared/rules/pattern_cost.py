"""How long a regular expression of somebody else's may take on a line that somebody else has written.

Python's engine tries every way to split a line among repetitions, so the ways multiply. A pattern is taken if
what it looks at stays bounded whatever the line: no repetition within another, and few that do not end at a character
of their own.
"""

import re
from collections.abc import Iterable, Sequence
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

LONGEST_LINE = 4000
"""Characters of a line that is matched: what `*` and `+` may take."""

MOST_STEPS = 20_000
"""From each place of a line: the worst line of all takes a second of a processor."""

_END: tuple[Any, Any] = (codes.SUCCESS, None)
"""Behind the last piece, where whatever was taken will do."""

_LETTERS = "".join(map(chr, range(256))) + "\u0660\u03a9\u4e2d\u2003"
"""Of Latin-1 all; beyond it a digit, letters and a blank, which stand for their kinds."""

_ANY_CASE = re.compile(r"\(\?[a-zA-Z-]*i[a-zA-Z-]*[:)]")

_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}


class _Cost(NamedTuple):
    """Of a piece of a pattern, tried at one place of a line."""

    ways: int
    """In how many ways it can share with what follows: so often is that tried."""
    steps: int
    """Letters that it looks at each time."""


def check_cost(pattern: str) -> None:
    """Raise ValueError for a pattern that is none, or may take long."""
    try:
        parsed = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"no regular expression: {error}") from error
    if _ANY_CASE.search(pattern):
        raise ValueError("(?i) is not allowed: write both cases, as in [Ee]rror")
    steps = _cost(parsed, (_END,)).steps
    if steps > MOST_STEPS:
        raise ValueError(
            f"it may look {steps:,} times at a line's letters from each place, and {MOST_STEPS:,} times are allowed: "
            "bound its repetitions, as in {1,40}, or end each at a character that it cannot take"
        )


def _cost(parsed: Iterable[Any], after: Sequence[Any] = (), *, repeated: bool = False) -> _Cost:
    """Return the cost of pieces in a row; `after`: what follows them."""
    ways, steps, items = 1, 0, list(parsed)
    for number, (code, details) in enumerate(items):
        one = _of_one(code, details, [*items[number + 1 :], *after], repeated=repeated)
        steps += ways * one.steps
        ways *= one.ways
    return _Cost(ways, steps)


def _of_one(code: Any, details: Any, rest: Sequence[Any], *, repeated: bool) -> _Cost:
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        return _of_repetition(details, rest, repeated=repeated)
    if code is codes.BRANCH:
        if repeated:
            raise ValueError("a choice within a repetition may take hours: write it without the repetition")
        each = [_cost(one, rest) for one in details[1]]
        return _Cost(sum(one.ways for one in each), sum(one.steps for one in each))
    if code is codes.GROUPREF_EXISTS:
        raise ValueError("a condition on a group is not allowed")
    if code is codes.SUBPATTERN:
        return _cost(details[-1], rest, repeated=repeated)
    if code is codes.POSSESSIVE_REPEAT:
        return _Cost(1, _of_repetition(details, (), repeated=repeated).steps)
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return _cost(details[1], repeated=repeated)
    return _cost(details, repeated=repeated) if code is codes.ATOMIC_GROUP else _Cost(1, 1)


def _of_repetition(details: Any, rest: Sequence[Any], *, repeated: bool) -> _Cost:
    least, most, body = details
    most = LONGEST_LINE if most is codes.MAXREPEAT else most
    if repeated and most > least:
        raise ValueError("a repetition within a repetition may take hours: write it without the inner one")
    inner = _cost(body, repeated=most > 1)
    ends_where_it_must = len(body) == 1 and not _first(body) & _first(rest)
    return _Cost(inner.ways * (1 if ends_where_it_must else most - least + 1), inner.steps * most)


def _first(parsed: Sequence[Any]) -> frozenset[str]:
    """Return the letters with which this may begin: all of them where that is not plain."""
    if not parsed:
        return frozenset(_LETTERS)
    code, details = parsed[0]
    if code is codes.SUCCESS:
        return frozenset()
    if code is codes.SUBPATTERN:
        return _first(details[-1])
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        return _first(details[2]) | (_first(parsed[1:]) if details[0] == 0 else frozenset())
    if code is codes.LITERAL:
        return frozenset(chr(details))
    if code is codes.NOT_LITERAL:
        return frozenset(_LETTERS) - {chr(details)}
    return _of_class(details) if code is codes.IN else frozenset(_LETTERS)


def _of_class(members: Sequence[Any]) -> frozenset[str]:
    taken: set[str] = set()
    for code, details in members:
        if code is codes.LITERAL:
            taken.add(chr(details))
        elif code is codes.RANGE:
            taken.update(map(chr, range(details[0], min(details[1], 0xFFFF) + 1)))
        elif code is codes.CATEGORY:
            taken.update(re.findall(_CATEGORIES[details], _LETTERS))
    return frozenset(set(_LETTERS) - taken if members[0][0] is codes.NEGATE else taken)
