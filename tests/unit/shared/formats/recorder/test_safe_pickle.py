"""Plain data comes through, everything else is refused before it can do anything."""

import contextlib
import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import UnreadableDump
from shared.formats.recorder import safe_pickle
from shared.formats.recorder.safe_pickle import load_plain

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=30,
)


@given(PLAIN, st.integers(2, 5))
def test_plain_data_comes_back_as_it_was(value: Any, protocol: int) -> None:
    assert load_plain(pickle.dumps(value, protocol=protocol)) == value


class Bomb:
    """Leaves a mark when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.mark),))


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_call_something_is_refused_and_calls_nothing(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "mark"
    with pytest.raises(UnreadableDump):
        load_plain(pickle.dumps({"entries": [Bomb(mark)]}, protocol=protocol))
    assert not mark.exists()


MUSEUM = {
    "empty": b"",
    "no stop": b"\x80\x02]",
    "global": b"\x80\x02cos\nsystem\n.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "instance": b"\x80\x02(ios\nsystem\n.",
    "persistent id": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "extension": b"\x80\x02\x82\x01.",
    "memo index of two billion": b"\x80\x02]r\xff\xff\xff\x7f.",
    "string that claims four gigabytes": b"\x80\x02X\xff\xff\xff\xffabc.",
    "bytes8 that claims 2**60": b"\x80\x04\x8e\x00\x00\x00\x00\x00\x00\x00\x10a.",
    "long that claims a gigabyte": b"\x80\x02\x8b\x00\x00\x00\x40a.",
    "get of nothing": b"\x80\x02h\x07.",
    "stack underflow": b"\x80\x02s.",
    "dict of lists as keys": b"\x80\x02}]K\x01s.",
    "buffer": b"\x80\x05\x97.",
}


@pytest.mark.parametrize("name", MUSEUM)
def test_the_museum_of_broken_and_hostile_pickles(name: str) -> None:
    with pytest.raises(UnreadableDump):
        load_plain(MUSEUM[name])


@given(st.binary(max_size=200))
def test_any_bytes_either_load_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(UnreadableDump):
        load_plain(b"\x80\x02" + data)


def test_truncation_at_every_byte_is_refused() -> None:
    whole = pickle.dumps({"entries": [{"record_id": i, "name": "all_reduce"} for i in range(5)]}, protocol=2)
    for length in range(len(whole)):
        with pytest.raises(UnreadableDump):
            load_plain(whole[:length])


def test_nesting_of_a_million_does_not_exhaust_the_stack() -> None:
    began = time.monotonic()
    with contextlib.suppress(UnreadableDump):
        load_plain(b"\x80\x02" + b"]" * 1_000_000 + b"a" * 999_999 + b".")
    assert time.monotonic() - began < 30


def test_millions_of_empty_containers_are_refused_before_they_are_made() -> None:
    """One byte makes a list of 56: a quarter of a gigabyte would make fourteen."""
    with pytest.raises(UnreadableDump, match="bytes of memory"):
        load_plain(b"\x80\x02" + b"]" * 45_000_001)


@pytest.mark.parametrize("opcode", [b"]", b"}", b"K\0\x85", b"K\0K\0\x86"])
def test_each_kind_of_empty_container_counts(opcode: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, with a quarter of the memory."""
    monkeypatch.setattr(safe_pickle, "_MOST_MEMORY", safe_pickle._MOST_MEMORY // 4)
    with pytest.raises(UnreadableDump, match="bytes of memory"):
        load_plain(b"\x80\x02" + opcode * 11_250_001)
