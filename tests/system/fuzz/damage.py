"""Ways to damage input: bytes cut, doubled, swapped and replaced, and values of JSON put where others belong."""

import copy
import json
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

HOSTILE_BYTES = (
    b"", b"\0", b"\n", b"\r\n", b" ", b"-", b"-1", b"0", b"\xff\xfe", b"\x1b[31m", b"\xe2\x80\xae", b"\xed\xb0\x80",
    b"9" * 30, b"9" * 5000, b"NaN", b"1e999", b"(" * 2000, b"[" * 3000, b'{"a":' * 3000, b"=", b":", b"%", b"/..",
    b"x" * 10_000, b"\\u0000", b'"\\ud800"', b"\xc2\x85", b"\xe2\x80\xa8", b"\xc2\xb2",
)  # fmt: skip
"""What parsers stumble over: line ends that are none, digits that are none, half characters, depth, length."""

HOSTILE_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 1.5, -0.0, float("nan"), float("inf"), 1e308, "",
    "\0", "\x1b[2J\n", "\u202e", "\ud800", "²", "x" * 10_000, "0-999999999", "9" * 40, [], {}, [[]], [None], {"": None},
    [0] * 2000, "../../etc/passwd", {"a": {"a": {"a": {}}}}, "2026-99-99T99:99:99Z",
)  # fmt: skip
"""What may stand where another value belongs."""


def damaged_bytes(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return inputs that are near to one of `seeds`, and now and then quite different ones."""
    return st.one_of(
        *[st.builds(_damage, st.sampled_from(list(seeds)), st.lists(_cuts, min_size=1, max_size=6))] * 4,
        st.binary(max_size=300),
    )


_position = st.floats(0, 1)
_cuts = st.tuples(
    st.sampled_from(["cut", "insert", "replace", "double", "swap", "flip"]),
    _position,
    _position,
    st.one_of(st.sampled_from(HOSTILE_BYTES), st.binary(max_size=8)),
)


def _damage(seed: bytes, cuts: list[tuple[str, float, float, bytes]]) -> bytes:
    data = seed
    for how, one, other, piece in cuts:
        low, high = sorted((int(one * len(data)), int(other * len(data))))
        middle = data[low:high]
        changed = {
            "cut": b"",
            "insert": piece + middle,
            "replace": piece,
            "double": middle * 2,
            "swap": middle[::-1],
            "flip": bytes(byte ^ 0x55 for byte in middle[:3]) + middle[3:],
        }[how]
        data = data[:low] + changed + data[high:]
    return data[:200_000]


def damaged_values(seeds: Sequence[Any]) -> st.SearchStrategy[Any]:
    """Return JSON values that are near to one of `seeds`: some of their parts are something else."""
    replacement = st.one_of(st.sampled_from(HOSTILE_VALUES), st.integers(), st.text(max_size=20))
    change = st.tuples(st.integers(0, 10**6), replacement, st.booleans())
    return st.builds(_changed, st.sampled_from(list(seeds)), st.lists(change, min_size=1, max_size=4))


def _changed(seed: Any, changes: list[tuple[int, Any, bool]]) -> Any:
    value = json.loads(json.dumps(seed))
    for choice, replacement, remove in changes:
        places = _places(value)
        if not places:
            break
        holder, key = places[choice % len(places)]
        if remove and isinstance(holder, dict):
            del holder[key]
        else:
            holder[key] = copy.deepcopy(replacement)  # the same list in two places would soon hold itself
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place in nested lists and dicts that something can be put into."""
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = range(len(holder)) if isinstance(holder, list) else list(holder) if isinstance(holder, dict) else ()
        for key in keys:
            places.append((holder, key))
            waiting.append(holder[key])
    return places


def as_json(value: Any) -> bytes:
    """Write it as a hostile writer might: NaN and half characters included."""
    return json.dumps(value).encode("ascii")


def as_pickle(value: Any) -> bytes:
    """Write it as PyTorch does."""
    return pickle.dumps(value, protocol=2)


Writer = Callable[[Any], bytes]
