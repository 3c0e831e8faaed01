"""Dumps in JSON: read part by part they say what they say when read as a whole, and what is broken is refused."""

import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.errors import UnreadableDump
from shared.formats.recorder import dump as reader
from shared.formats.recorder.dump import build_trace, parse_dump
from shared.formats.recorder.fast_path import Repeats
from shared.formats.recorder.json_dump import read_json_dump, read_part
from tests.build.jobs.dumped import dumped_entry

_FRAMES = [
    {"name": "step", "filename": "/srv/train.py", "line": 7},
    {"name": "main", "filename": "/srv/t.py", "line": 1},
]


def entry(**more: Any) -> dict[str, Any]:
    """One operation."""
    return dumped_entry(**{"frames": _FRAMES, "time_created_ns": 17, "input_sizes": [[3, 4]], **more})


def dumped(*entries: Any, **more: Any) -> dict[str, Any]:
    """A dump."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": list(entries), **more}


_VALUES = st.sampled_from(
    [None, True, 0, 7, -1, 2**63, 2.5, "", "5", "x", "é", "\ud800", [], [1], [[2, 3]], ["Float"], {}, {"a": 1}]
)
_ENTRIES = st.dictionaries(st.sampled_from([*entry(), "time_created_us", "seq_id", "other"]), _VALUES, max_size=4)


def read(what: Any) -> Any:
    """Return what is read of a dump, or that it is refused."""
    try:
        return what().model_dump()
    except UnreadableDump:
        return UnreadableDump


@settings(max_examples=200, deadline=None)
@given(st.lists(_ENTRIES, min_size=1, max_size=4))
@example([{"time_created_us": None, "collective_seq_id": None, "seq_id": 7, "record_id": "\ud800"}])
def test_parts_say_what_the_whole_says(changes: list[dict[str, Any]]) -> None:
    """Whatever stands in a field; null counts as what is not there."""
    dump = dumped(*(entry(**change) for change in changes))
    whole = {**dump, "entries": [{k: v for k, v in each.items() if v is not None} for each in dump["entries"]]}
    assert read(lambda: parse_dump(json.dumps(dump).encode())) == read(lambda: build_trace(whole, Repeats()))


@settings(max_examples=100, deadline=None)
@given(st.lists(_ENTRIES, min_size=1, max_size=4))
def test_any_pickler_says_what_the_tree_says(changes: list[dict[str, Any]]) -> None:
    """Shared values or not."""
    dump = dumped(*(entry(**change) for change in changes))
    assert read(lambda: parse_dump(pickle.dumps(dump, 2))) == read(lambda: build_trace(dump, Repeats()))


def test_stacks_are_left_unread() -> None:
    """That is what makes it quick: of two thousand equal ones, one is read."""
    read = read_json_dump(json.dumps(dumped(entry(), entry())).encode(), most_bytes=1 << 20)
    one, other = (each["frames"] for each in read["entries"])
    assert bytes(one) == bytes(other)
    assert read_part(one) == _FRAMES
    assert reader.parse_dump(json.dumps(dumped(entry(), entry())).encode()).call_sites[1][-1].function == "step"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(dumped(entry())).encode().replace(b'"step"', b'"\xff\xfe"'),
        json.dumps(dumped(entry())).encode().replace(b'"line": 7', b'"line": 7e'),
        json.dumps(dumped(entry(frames="x"))).encode(),
        json.dumps(dumped(entry(frames=[[]]))).encode(),
        json.dumps(dumped(entry(input_sizes=[[10**30]]))).encode(),
        b'{"entries": [{"frames": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        b'{"entries": [{"frames": ' + b"[" * 100_000,
        b'{"entries": 7}',
        b'{"entries": [7]}',
    ],
)
def test_what_is_broken_is_refused(text: bytes) -> None:
    """By our error, whichever part it is in."""
    with pytest.raises(UnreadableDump):
        parse_dump(text)


@pytest.mark.parametrize("odd", ["\ud800", math.nan])
def test_texts_that_only_python_takes_are_read(odd: Any) -> None:
    """Jobs write what their writer lets them."""
    trace = parse_dump(json.dumps(dumped(entry(thread_name=odd), more=odd)).encode())
    assert trace.signatures[0].op == "all_reduce"
    assert parse_dump(json.dumps(dumped(entry())).encode("utf-16")).signatures == trace.signatures
