"""A dump that repeats itself is read as any other: whatever its entries, the fast way gives what the slow one gives."""

import json
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import UnreadableDump
from shared.formats.recorder import fast_path as recorder_repeats
from shared.formats.recorder.dump import build_trace, parse_dump
from shared.formats.recorder.fast_path import Repeats
from shared.formats.recorder.fast_path_skeletons import Skeletons
from shared.formats.recorder.like_entries import put_together
from shared.wire.stacks import Frame
from shared.wire.trace import Trace
from tests.bench.dumps import TorchPickle
from tests.build.jobs.dumped import dumped_entry

_BEGUN = 1_790_000_000_000_000_000
FRAMES = [Frame("all_reduce", "/opt/torch/distributed_c10d.py", 3245), Frame("step", "/srv/train.py", 12)]


def entry(**fields: Any) -> dict[str, Any]:
    """One that was timed and is completed, with all fields; those that are given as ... are left out."""
    done = {"state": "completed", "retired": True, "duration_ms": 1.25, "process_group": ("0", "default_pg")}
    times = {"time_discovered_started_ns": _BEGUN + 100_000, "time_discovered_completed_ns": _BEGUN + 200_000}
    return dumped_entry(**{"frames": FRAMES, "collective_seq_id": 300, "op_id": 300, **done, **times, **fields})


def dump(entries: list[Any], **fields: Any) -> dict[str, Any]:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    status = {"0": {"last_enqueued_collective": 9, "last_started_collective": 9, "last_completed_collective": 8}}
    return {"version": "2.10", "pg_config": config, "pg_status": status, "entries": entries} | fields


def as_torch_writes(value: Any) -> bytes:
    return b"\x80\x02" + TorchPickle().encode(value) + b"."


def plain(value: Any) -> Any:
    """The same value with frames as what they are in a dump."""
    if isinstance(value, Frame):
        return {"name": value.function, "filename": value.file, "line": value.line}
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def taken_out(data: bytes) -> int:
    repeats = Repeats()
    repeats.take_out(data)
    return len(repeats)


NUMBERS = st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**63 - 1, -1, -(2**31), -(2**63)])
TIMES = st.none() | st.sampled_from([0, 1_790_000_000_000_000_000, 2**63 - 1, 77])
SIZES = st.sampled_from([[[8, 4]], [[2**40]], [[]], [], [[1], [300, 70_000]]])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "frames": st.sampled_from([FRAMES, FRAMES[:1], []]),
    "record_id": NUMBERS,
    "pg_id": st.sampled_from([0, 1, 70_000]),
    "process_group": st.sampled_from([("0", "default_pg"), ("1", "tp"), ("1", "dp")]),
    "collective_seq_id": NUMBERS,
    "p2p_seq_id": NUMBERS,
    "op_id": NUMBERS,
    "profiling_name": st.sampled_from(["nccl:all_reduce", "gloo:all_reduce", "nccl:send 0->1", "nccl:coalesced"]),
    "time_created_ns": TIMES,
    "duration_ms": st.sampled_from([..., 2.5, 7]),
    "input_sizes": SIZES,
    "output_sizes": SIZES,
    "input_dtypes": st.sampled_from([["Float"], [], ["Float", "BFloat16"]]),
    "state": st.sampled_from(["completed", "started", "scheduled"]),
    "time_discovered_started_ns": TIMES,
    "time_discovered_completed_ns": TIMES,
    "retired": st.booleans(),
    "is_p2p": st.booleans(),
    "thread_name": st.sampled_from(["pt_main_thread", "pt_autograd_0"]),
}
ODD = st.sampled_from([..., None, "12", "words", 3, True, 1.5, [[1]], [["x"]], {"a": 1}, (1, 2), -7])


@st.composite
def entries(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Few kinds of call, made over and over with other numbers; some with a field that is odd, lacking or displaced."""
    kinds = draw(st.lists(st.fixed_dictionaries({}, optional=VALUES), min_size=1, max_size=3))
    made = []
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=12)):
        one = entry(**kind, **draw(st.fixed_dictionaries({}, optional={k: VALUES[k] for k in VALUES.keys() - kind})))
        if draw(st.integers(0, 9)) == 0:
            one |= {draw(st.sampled_from(sorted(one))): draw(ODD)}
        if draw(st.integers(0, 9)) == 0:
            one = dict(draw(st.permutations(list(one.items()))))
        made.append({key: value for key, value in one.items() if value is not ...})
    return made


@given(entries(), st.integers(2, pickle.HIGHEST_PROTOCOL), st.sampled_from(["nothing", "frames", "lists"]))
def test_all_ways_give_the_same(made: list[dict[str, Any]], protocol: int, shared: str) -> None:
    """Python's own picklers keep every container: an entry may share its lists with another that was taken out."""
    value = plain(dump(made))
    one_by_one = outcome(build_trace, value, Repeats())
    assert outcome(parse_dump, as_torch_writes(dump(made))) == one_by_one
    again = value if shared == "nothing" else pickle.loads(as_torch_writes(dump(made)))
    again = sharing(again, {}) if shared == "lists" else again
    assert outcome(parse_dump, pickle.dumps(again, protocol)) == one_by_one


def sharing(value: Any, known: dict[str, Any]) -> Any:
    """The same value, in which lists that look alike are one list."""
    if isinstance(value, dict):
        is_frame = "filename" in value
        return value if is_frame else {key: sharing(each, known) for key, each in value.items()}
    return known.setdefault(repr(value), [sharing(each, known) for each in value]) if type(value) is list else value


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_entries_of_python_s_picklers_are_taken_out(protocol: int) -> None:
    """But for the first of each call and, from protocol 4 on, those in which a frame ends."""
    calls = [entry(op_id=at, collective_seq_id=at, output_sizes=[[8, 4]] * (at % 3)) for at in range(1, 2_000)]
    data = pickle.dumps(pickle.loads(as_torch_writes(dump(calls))), protocol)
    assert taken_out(data) >= len(calls) - (3 if protocol < 4 else 15)
    trace = parse_dump(data)
    assert trace == build_trace(plain(dump(calls)), Repeats())
    assert trace.op_id.tolist() == list(range(1, 2_000))


@pytest.mark.parametrize("protocol", [2, 4])
def test_lists_that_were_taken_out_with_their_entry_are_missed(protocol: int) -> None:
    """An entry that shares them asks the memo for them, in vain: all is read once more, by the slow way."""
    value = pickle.loads(as_torch_writes(dump([entry(op_id=at) for at in range(9)])))
    fifth = value["entries"][5]
    value["entries"] += [fifth | {"op_id": 9}, fifth | {"op_id": 10, "profiling_name": "nccl:broadcast"}]
    data = pickle.dumps(value, protocol)
    assert taken_out(data) == 8
    assert parse_dump(data) == build_trace(value, Repeats())


@pytest.mark.parametrize(
    ("protocol", "ours", "odd"), [(2, b"writtenq\2", b"written\x94"), (4, b"written\x94", b"writtenq\2")]
)
def test_places_may_be_written_and_counted_in_one_pickle(protocol: int, ours: bytes, odd: bytes) -> None:
    value = pickle.loads(as_torch_writes(dump([entry(op_id=at) for at in range(5)], version="written")))
    data = pickle.dumps(value, protocol)
    assert ours in data
    assert taken_out(data) == 4
    assert parse_dump(data.replace(ours, odd)) == build_trace(value, Repeats())


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("op_id", "12"),
        ("pg_id", True),
        ("input_sizes", [[1.0]]),
        ("input_sizes", [[[1]]]),
        ("process_group", ["tp"]),
        ("time_created_us", 5),
        ("frames", "main"),
        ("is_p2p", 1),
    ],
)
def test_values_that_may_be_told_apart_wrongly_are_read_one_by_one(field: str, given: Any) -> None:
    one = plain(entry())
    like = [one | {"op_id": at} for at in range(3)]
    found = put_together(like, most_parts=1_000)
    assert found is not None
    assert (found[0], list(found[1].order)) == ([like[0]], [0, 0, 0])
    assert put_together([*like, one | {field: given}], most_parts=1_000) is None
    assert put_together(like, most_parts=10) is None


def test_one_list_in_a_thousand_places_is_not_looked_at_a_thousand_times() -> None:
    sizes = [[1] * 60] * 60_000
    one = plain(entry()) | {"input_sizes": sizes}
    data = pickle.dumps(dump([one | {"op_id": at} for at in range(1_000)]), protocol=2)
    with pytest.raises(UnreadableDump, match="parts in all"):
        parse_dump(data)


@given(entries(), st.sets(st.sampled_from(sorted(VALUES)), max_size=2), st.integers(0, 5))
def test_dumps_of_one_program_are_read_as_if_they_were_the_only_one(
    made: list[dict[str, Any]], odd: set[str], number: int
) -> None:
    """The third of equal size is read by the skeleton of the second, or told from it where more than times differ."""
    recorder_repeats._SKELETONS = Skeletons()
    for rank in range(4):
        later = [shifted(one, 1_000 * rank) for one in [entry(), *made, entry(), entry()]]
        if rank == 3 and number < len(later):
            later[number] |= {key: entry()[key] for key in odd}
        one_by_one = outcome(build_trace, plain(dump(later)), Repeats())
        assert outcome(parse_dump, as_torch_writes(dump(later))) == one_by_one


def shifted(one: dict[str, Any], by: int) -> dict[str, Any]:
    """The same call at another time, which takes as many bytes."""
    times = {key: value + by for key, value in one.items() if key.endswith("_ns") and is_time(value)}
    return one | times | ({"duration_ms": 0.25 * by} if isinstance(one.get("duration_ms"), float) else {})


def is_time(value: Any) -> bool:
    return isinstance(value, int) and 2**60 < value < 2**62


def test_a_skeleton_serves_ranks_that_differ_in_times_and_in_what_does_not_repeat() -> None:
    recorder_repeats._SKELETONS = Skeletons()
    for rank in range(4):
        odd = entry(op_id=40 + rank, timeout_ms="odd")
        calls = [entry(op_id=1), entry(op_id=2), odd, *(entry(op_id=at) for at in range(3, 9))]
        data = as_torch_writes(dump([shifted(call, rank) for call in calls]))
        trace = parse_dump(data)
        assert trace.op_id.tolist() == [1, 2, 40 + rank, *range(3, 9)]
        assert set(trace.created_ns) == {entry()["time_created_ns"] + rank}
    assert len(recorder_repeats._SKELETONS._kept) == 1


def outcome(read: Callable[..., Trace], *given: Any) -> Trace | type[UnreadableDump]:
    try:
        return read(*given)
    except UnreadableDump:
        return UnreadableDump


def test_all_entries_of_pytorch_s_layout_are_taken_out_once_their_strings_are_known() -> None:
    calls = [entry(op_id=at, collective_seq_id=at, record_id=at) for at in range(1, 400)]
    data = as_torch_writes(dump(calls))
    assert taken_out(data) == len(calls) - 1
    trace = parse_dump(data)
    assert trace == parse_dump(json.dumps(plain(dump(calls))).encode())
    assert list(trace.op_id) == list(range(1, 400))


@pytest.mark.parametrize(
    "changes",
    [
        {"thread_name": ..., "thread_id": ...},
        {"duration_ms": ...},
        {"time_discovered_started_ns": None, "time_discovered_completed_ns": None, "state": "scheduled"},
    ],
    ids=["before 2.10", "not timed", "of Gloo"],
)
def test_the_layouts_of_other_versions_and_backends_are_known(changes: dict[str, Any]) -> None:
    data = as_torch_writes(dump([entry(**changes, op_id=at) for at in range(10)]))
    assert taken_out(data) == 9
    assert parse_dump(data).op_id.tolist() == list(range(10))


def test_fields_that_only_look_like_the_layout_are_read_by_their_names() -> None:
    """Sequence and op id have changed places: the bytes match, the meaning does not."""
    one = entry(collective_seq_id=5, op_id=90)
    keys = list(one)
    first, second = keys.index("collective_seq_id"), keys.index("op_id")
    keys[first], keys[second] = keys[second], keys[first]
    swapped = [{key: one[key] for key in keys}] * 3
    data = as_torch_writes(dump(swapped))
    assert taken_out(data) == 2
    assert parse_dump(data).collective_seq.tolist() == [5, 5, 5]


@pytest.mark.parametrize("stranger", [0, 1, -1, 2**40, (entry(), 0), (entry(), 1), (), None, "entry"])
def test_a_stranger_among_the_entries_is_judged_as_without_repeats(stranger: Any) -> None:
    """A number in the list could pass for a repeat."""
    value = dump([entry(), entry(), stranger, entry()])
    assert outcome(parse_dump, as_torch_writes(value)) == outcome(
        parse_dump, pickle.dumps(plain_deep(value), protocol=2)
    )


def plain_deep(value: Any) -> Any:
    if isinstance(value, tuple) and not isinstance(value, Frame):
        return tuple(plain_deep(each) for each in value)
    if isinstance(value, dict):
        return {key: plain_deep(each) for key, each in value.items()}
    return [plain_deep(each) for each in value] if isinstance(value, list) else plain(value)


def test_an_entry_in_a_strange_place_shifts_nobody() -> None:
    """Where the layout stands outside of the entries, the dump is read in full."""
    value = {"note": [entry(), entry(), entry()]} | dump([entry(op_id=at) for at in range(3)])
    assert parse_dump(as_torch_writes(value)).op_id.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "hostile",
    [b"}(h\x00](" + b"h\x00" * 40, b"}(h\x00](" * 40, b"}(", b"h}", b"j}(h]", b"}(h\x00](e", b"}(h}](j}(h]"],
    ids=["frames that never end", "lists that never end", "beginnings", "keys", "hidden", "short", "overlapping"],
)
def test_hostile_bytes_cost_time_in_proportion(hostile: bytes) -> None:
    began = time.monotonic()
    with pytest.raises(UnreadableDump):
        parse_dump(b"\x80\x02" + hostile * (2_000_000 // len(hostile)))
    assert time.monotonic() - began < 10


def test_more_entries_than_anyone_records_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_repeats, "MOST_RECORDS", 100)
    with pytest.raises(UnreadableDump, match="more than 100 entries"):
        parse_dump(as_torch_writes(dump([entry()] * 102)))
    assert len(parse_dump(as_torch_writes(dump([entry()] * 101)))) == 101
