"""Which silences hold an incident back. A pattern is matched in time linear in its length, whoever wrote it.

Alertmanager's matchers are RE2 expressions. Of these the ones that people write into silences are understood: text,
`.`, `.*`, `.+` and `|`; everything else is refused rather than taken for something else.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shared.answer.incidents import Silence, SilenceMatcher
from shared.errors import InvalidInput, quoted

_SPECIAL = frozenset("\\^$*+?()[]{}|.")
_ADVICE = "a pattern may hold text, `.`, `.*`, `.+` and `|`; write `\\.` for a dot"


class _Token(NamedTuple):
    """One step of a pattern: a character (`""`: any one), which may come any number of times."""

    character: str
    repeats: bool = False


def silenced_by(silences: Iterable[Silence], labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the silences that are active and match."""
    return tuple(
        silence.id
        for silence in silences
        if silence.status.state == "active" and all(matches(each, labels) for each in silence.matchers)
    )


def matches(matcher: SilenceMatcher, labels: Mapping[str, str]) -> bool:
    """Does a matcher hold for these labels? A label that is not there is empty. Raises InvalidInput."""
    value = labels.get(matcher.name, "")
    if not matcher.isRegex:
        return (value == matcher.value) == matcher.isEqual
    found = any(_fits(tokens, value) for tokens in parse_pattern(matcher.value))
    return found == matcher.isEqual


def parse_pattern(text: str) -> list[list[_Token]]:
    """Return the alternatives of a pattern. Raises InvalidInput, which quotes it."""
    alternatives: list[list[_Token]] = [[]]
    rest = iter(text)
    for character in rest:
        tokens = alternatives[-1]
        if character == "|":
            alternatives.append([])
        elif character == "\\":
            escaped = next(rest, "")
            if escaped not in _SPECIAL and escaped not in ("-", "/", ":", "@"):
                raise _refused(text)
            tokens.append(_Token(escaped))
        elif character == ".":
            tokens.append(_Token(""))
        elif character in "*+" and tokens and tokens[-1] == _Token(""):
            tokens[-1:] = [_Token("", True)] if character == "*" else [_Token(""), _Token("", True)]
        elif character in _SPECIAL:
            raise _refused(text)
        else:
            tokens.append(_Token(character))
    return alternatives


def _fits(tokens: Sequence[_Token], text: str) -> bool:
    """Does the whole text fit? All places that the pattern may be at are followed at once."""
    places = _with_skipped(tokens, {0})
    for character in text:
        moved = set()
        for place in places:
            if place < len(tokens) and tokens[place].character in ("", character):
                moved.add(place if tokens[place].repeats else place + 1)
        places = _with_skipped(tokens, moved)
    return len(tokens) in places


def _with_skipped(tokens: Sequence[_Token], places: set[int]) -> set[int]:
    """Add the places behind repeats, which may come no time at all."""
    found = set()
    for place in places:
        found.add(place)
        while place < len(tokens) and tokens[place].repeats:
            place += 1
            found.add(place)
    return found


def _refused(text: str) -> InvalidInput:
    return InvalidInput(f"the pattern {quoted(text)} is not understood", advice=_ADVICE)
