"""Untrusted JSON, parsed with a limit on the memory that it takes.

A byte of JSON can become thirty bytes of values: 60 MB of `{},{},…` take 1.6 GiB. The parser of the standard library
has no limit, but counting a few characters in the text gives a bound beforehand, at gigabytes per second.
"""

import json
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from shared.errors import InvalidInput
from shared.value import whole_texts

_MEBI = 1024 * 1024

_WEIGHTS = ((b"{", 64), (b"[", 88), (b",", 64), (b":", 90))
"""What each makes at most, in bytes: a dict, a list, a value with its place, a name with its place. Measured with
CPython 3.11 to 3.13; the same characters within texts count as well."""

_WIDEST = 8
_MOST_OF_A_BYTE = _WIDEST + max(weight for _, weight in _WEIGHTS)
"""What one byte of a text comes to at most."""

_SMALL = 64 * 1024
"""What no text of this length can make too much of."""

_MODEL_WEIGHTS = ((b"{", 1000), (b"[", 400), (b",", 72), (b":", 72))
"""The same for a text that pydantic reads: a model with the fields that it has by default, a row of a table."""

_Weights = tuple[tuple[bytes, int], ...]

_PIECE = 1024 * 1024
"""What is weighed at once, and stays in the cache of a core."""


class TooCostly(InvalidInput):
    """JSON that would take more memory than a bound allows."""


def load_json(data: bytes, *, most_bytes: int) -> Any:
    """Return the value of a JSON text whose parts take at most `most_bytes` of memory together.

    All texts in it are whole: JSON can write half characters, which can be neither sent nor shown.
    Raises TooCostly, and ValueError or RecursionError where it is no JSON.
    """
    check_json(data, most_bytes=most_bytes)
    value = json.loads(data)
    return whole_texts(value) if _may_have_halves(data) else value


def has_halves(data: bytes) -> bool:
    """Is this JSON with a half character in one of its texts? To be asked of what is short."""
    if not _may_have_halves(data):
        return False
    try:
        value = json.loads(data)
        return bool(whole_texts(value) != value)
    except (ValueError, RecursionError):
        return False


def _may_have_halves(data: bytes) -> bool:
    if b"\\" in data and (b"\\ud" in data or b"\\uD" in data):  # to look for one byte costs a tenth
        return True
    return (not data.isascii() and b"\xed" in data) or b"\0" in data[:4]  # of UTF-8; UTF-16 and UTF-32


def check_json(data: bytes, *, most_bytes: int) -> None:
    """Raise TooCostly where the parts of a JSON text may take more than `most_bytes` of memory together."""
    if len(data) * _MOST_OF_A_BYTE > most_bytes:  # else there is nothing to count
        _check(data, _WEIGHTS, most_bytes)


def json_cost(data: bytes) -> int:
    """Return how many bytes of memory a text takes at most as dicts, lists, numbers and strings."""
    return _cost(data, _WEIGHTS)


def check_model_json(data: bytes, *, most_bytes: int) -> None:
    """Raise TooCostly where pydantic would take more than `most_bytes` of memory to read a text as models."""
    if len(data) > _SMALL:  # as most surveys are not: their characters are not worth counting
        _check(data, _MODEL_WEIGHTS, most_bytes)


def model_cost(data: bytes) -> int:
    """Return how many bytes of memory a text takes at most as pydantic's models, or as its complaints."""
    return _cost(data, _MODEL_WEIGHTS)


def _cost(data: bytes, weights: _Weights) -> int:
    return _text_cost(data) + sum(_costs_of_pieces(data, weights))


def _costs_of_pieces(data: bytes, weights: _Weights) -> Iterator[int]:
    for begin in range(0, len(data), _PIECE):
        piece = data[begin : begin + _PIECE]
        yield sum(weight * piece.count(character) for character, weight in weights)


def _text_cost(data: bytes) -> int:
    """The text itself, and all of its strings. One wide character makes each character of its string as wide."""
    wide = not data.isascii() or (b"\\" in data and b"\\u" in data)
    return (_WIDEST if wide else 2) * len(data)


def _check(data: bytes, weights: _Weights, most_bytes: int) -> None:
    """Weigh piece by piece, and no further once it is too much: a hostile text shows that in a small part of it."""
    if len(data) <= _SMALL:
        return
    for cost in accumulate(_costs_of_pieces(data, weights), initial=_text_cost(data)):
        if cost > most_bytes:
            raise TooCostly(
                f"{len(data)} bytes of JSON that would take more than the "
                f"{most_bytes // _MEBI} MiB of memory that are allowed"
            )
