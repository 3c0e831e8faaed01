"""Dumps of every version and backend become traces; what is hostile is refused, what is silent stays silent."""

import contextlib
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import UnreadableDump
from shared.formats.recorder.dump import parse_dump, rank_of_file_name
from shared.formats.recorder.operations import parse_operation
from shared.wire.trace import State
from tests.build.jobs.dumped import dumped_entry


def entry(**fields: Any) -> dict[str, Any]:
    return dumped_entry(**{"timeout_ms": ..., **fields})


def dump(*entries: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"version": "2.10", "entries": list(entries), "pg_config": {}, "pg_status": {}} | fields


@pytest.mark.parametrize("encode", [pickle.dumps, lambda value: json.dumps(value).encode()], ids=["pickle", "json"])
def test_pickle_and_json_give_the_same_trace(encode: Any) -> None:
    status = {"0": {"last_enqueued_collective": "2", "last_started_collective": "-1", "last_completed_collective": 1}}
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    trace = parse_dump(
        encode(dump(entry(state="completed"), entry(collective_seq_id=2), pg_status=status, pg_config=config))
    )
    assert [record.state for record in trace.records()] == [State.COMPLETED, State.ISSUED]
    assert trace.groups[0].members == "0-3"
    assert (trace.marks[0].issued, trace.marks[0].started, trace.marks[0].completed) == (2, None, 1)


def test_signatures_of_json_are_told_apart_by_type_and_shape() -> None:
    """Of JSON each signature is read once, and what merely looks alike is not taken for the same."""
    sizes: list[Any] = [[[8, 4]], [[8], [4]], [["8", 4]], [[8, 4]], [], None, [[8, 4]]]
    entries = [entry(input_sizes=each, op_id=at) for at, each in enumerate(sizes)]
    entries += [entry(profiling_name="gloo:all_reduce", retired=True), entry(profiling_name="gloo:broadcast")]
    of_json, of_pickle = (
        parse_dump(data) for data in (json.dumps(dump(*entries)).encode(), pickle.dumps(dump(*entries)))
    )
    assert of_json == of_pickle
    read = [record.signature.input_sizes for record in of_json.records()]
    assert read[:7] == [((8, 4),), ((8,), (4,)), ((8, 4),), ((8, 4),), (), (), ((8, 4),)]
    assert [record.state for record in of_json.records()][7:] == [State.COMPLETED, State.ISSUED]


def test_a_scatter_of_nccl_is_recorded_the_other_way_round() -> None:
    """What it fills stands as its input there; the root hands out a part for each, and who is none nothing."""
    sides = {"root": [[16], [16]], "other": [[0]]}
    on_nccl, on_gloo = (
        [entry(profiling_name=f"{name}:scatter", **{mine: [[16]], theirs: out}) for out in sides.values()]
        for name, mine, theirs in (
            ("nccl", "input_sizes", "output_sizes"),
            ("gloo", "output_sizes", "input_sizes"),
        )
    )
    read = [
        (one.signature.input_sizes, one.signature.output_sizes)
        for one in parse_dump(pickle.dumps(dump(*on_nccl, *on_gloo))).records()
    ]
    assert read[:2] == read[2:] == [(((16,), (16,)), ((16,),)), (((0,),), ((16,),))]


@pytest.mark.parametrize("depth", [3, 500, 900, 940, 980, 2000])
def test_lists_in_lists_of_any_depth_are_refused(depth: int) -> None:
    """Deep ones must not end in an error of their own while they are quoted."""
    nested = b"[" * depth + b"]" * depth
    with pytest.raises(UnreadableDump):
        parse_dump(b'{"entries": [{"profiling_name": "gloo:all_reduce", "input_sizes": [[' + nested + b"]]}]}")


def test_small_pickle_of_endless_lists_is_refused_at_once() -> None:
    """Written out, its list of lists of lists would fill any memory."""
    lists: list[Any] = [1]
    for _ in range(64):
        lists = [lists] * 64
    with pytest.raises(UnreadableDump):
        parse_dump(pickle.dumps(dump(entry(input_sizes=lists))))


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [
        ([0, 0, 0, 1, 1], [3, 4]),  # aborted, and made again
        ([0, 1, 0, 1, 1], [0, 1, 2, 3, 4]),  # two at a time
        ([0, 0, 2, 1, 1, 2], [2, 3, 4, 5]),
    ],
)
def test_what_a_group_did_before_it_was_made_again_is_left_out(numbers: list[int], kept: list[int]) -> None:
    """Its name and its sequences repeat; its status, too, is of another."""
    entries = [entry(pg_id=number, op_id=at, time_created_ns=at + 1) for at, number in enumerate(numbers)]
    status = {str(number): {"last_enqueued_collective": number} for number in set(numbers)}
    trace = parse_dump(pickle.dumps(dump(*entries, pg_status=status)))
    assert [created - 1 for created in trace.created_ns] == kept
    assert {mark.issued for mark in trace.marks} == {numbers[at] for at in kept}


def test_longest_timeout_of_each_group() -> None:
    """Of entries that tell one; what is no time is passed over."""
    other = entry(process_group=["1", "tensor"], timeout_ms="soon")
    trace = parse_dump(pickle.dumps(dump(entry(timeout_ms=600_000), entry(timeout_ms=1_800_000), entry(), other)))
    assert [group.timeout_ms for group in trace.groups] == [1_800_000, None]


def test_on_gloo_retired_means_completed_and_on_nccl_it_means_timed_out() -> None:
    gloo = entry(profiling_name="gloo:all_reduce", retired=True)
    trace = parse_dump(pickle.dumps(dump(gloo, entry(retired=True))))
    assert [record.state for record in trace.records()] == [State.COMPLETED, State.ISSUED]


def test_an_empty_configuration_names_no_members() -> None:
    config = {"": {"name": "", "desc": "", "ranks": "[]"}}
    trace = parse_dump(json.dumps(dump(entry(), pg_config=config)).encode())
    assert [(group.name, group.members) for group in trace.groups] == [("0", None)]


def test_members_that_are_not_in_ascending_order_keep_it_for_peers() -> None:
    config = {"5": {"name": "5", "desc": "pp", "ranks": "[6, 2, 4]"}}
    group = parse_dump(pickle.dumps(dump(pg_config=config))).groups[0]
    assert group.members == "2,4,6"
    assert group.order == (6, 2, 4)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("nccl:all_reduce", ("nccl", "all_reduce", None, None)),
        ("nccl:recv 3<-0", ("nccl", "recv", 0, 3)),
        ("gloo:send 1->2", ("gloo", "send", 1, 2)),
        ("nccl:_all_gather_base", ("nccl", "all_gather_into_tensor", None, None)),
        ("hccl:ALLREDUCE", ("hccl", "all_reduce", None, None)),
        ("nccl:ALLGATHER_coalesced", ("nccl", "all_gather_coalesced", None, None)),
        ("coalesced", ("", "coalesced", None, None)),
    ],
)
def test_operations_have_one_name_whatever_the_backend_calls_them(name: str, read: tuple[Any, ...]) -> None:
    assert parse_operation(name) == read


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_0", 0),
        ("_dump_13", 13),
        ("nccl_trace_rank_container-node02_5", 5),
        ("comm_lib_trace_rank_7.json", 7),
        ("trace", None),
        ("rank_x", None),
    ],
)
def test_the_rank_is_the_number_at_the_end_of_the_name(name: str, rank: int | None) -> None:
    assert rank_of_file_name(name) == rank


HOSTILE = {
    "nothing": b"",
    "text": b"hello",
    "a list": b"[1, 2]",
    "another object": b'{"a": 1}',
    "deep": b"[" * 100_000,
    "deep object": b'{"entries":' * 50_000,
    "entries are no list": b'{"entries": {"a": 1}}',
    "an entry is no object": b'{"entries": [3]}',
    "numbers are words": b'{"entries": [{"op_id": "many"}]}',
    "numbers are huge": b'{"entries": [{"op_id": 99999999999999999999999}]}',
    "numbers are infinite": b'{"entries": [{"op_id": 1e999}]}',
    "sizes are words": b'{"entries": [{"input_sizes": [["x"]]}]}',
    "sizes are too deep": json.dumps({"entries": [{"input_sizes": [[1] * 65]}]}).encode(),
    "frames are words": b'{"entries": [{"frames": ["x"]}]}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_museum_of_broken_dumps(name: str) -> None:
    with pytest.raises(UnreadableDump):
        parse_dump(HOSTILE[name])


def test_a_small_pickle_that_describes_a_vast_structure_is_refused() -> None:
    """Shared references: a list of 65,536 times the same list of 65,536 numbers."""
    row = [7] * 65_536
    with pytest.raises(UnreadableDump):
        parse_dump(pickle.dumps(dump(entry(input_sizes=[row] * 65_536)), protocol=2))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_whatever_stands_where_entries_should_it_is_read_or_refused(value: Any) -> None:
    for shape in (value, [value], [{"frames": value}], [{"process_group": value, "input_sizes": value}]):
        with contextlib.suppress(UnreadableDump):
            parse_dump(json.dumps({"entries": shape, "pg_status": {"0": value}, "pg_config": {"0": value}}).encode())


def test_a_window_keeps_the_last_of_each_lane_and_all_that_is_unfinished() -> None:
    old = entry(collective_seq_id=1)
    done = [entry(collective_seq_id=i, state="completed") for i in range(2, 30)]
    trace = parse_dump(pickle.dumps(dump(old, *done))).windowed(3)
    assert [record.collective_seq for record in trace.records()] == [1, 27, 28, 29]
    assert trace.truncated


def test_torchcomms_retires_under_any_name_what_has_ended() -> None:
    """With how long it took; what NCCL retires without that, it gave up."""
    entries = [entry(retired=True, duration_ms=1.5), entry(retired=True), entry()]
    told = [record.state for record in parse_dump(pickle.dumps(dump(*entries))).records()]
    assert told == [State.COMPLETED, State.ISSUED, State.ISSUED]


@pytest.mark.parametrize("encode", [pickle.dumps, lambda value: json.dumps(value).encode()], ids=["pickle", "json"])
def test_a_bare_list_of_entries_is_a_dump_of_pytorch_2_2(encode: Any) -> None:
    """Its times are in microseconds, and it has one number for all that a group does."""
    old = {"pg_id": 0, "seq_id": 7, "profiling_name": "nccl:all_reduce", "time_created_us": 1_700_000_000_000_000}
    record = parse_dump(encode([old | {"state": "started", "frames": []}])).record(0)
    assert (record.collective_seq, record.state) == (7, State.STARTED)
    assert (record.group.name, record.created_ns) == ("0", 1_700_000_000_000_000_000)
    with pytest.raises(UnreadableDump):
        parse_dump(encode([{"frames": []}]))


def test_members_may_be_a_real_list_under_the_number_of_the_group() -> None:
    """PyTorch 2.3 writes `{number: [ranks]}`."""
    old = {key: value for key, value in entry(pg_id=3).items() if key != "process_group"}
    trace = parse_dump(pickle.dumps(dump(old, pg_config={3: [4, 2, 6]})))
    assert [(group.name, group.members, group.order) for group in trace.groups] == [("3", "2,4,6", (4, 2, 6))]


def test_the_type_of_a_single_tensor_may_stand_alone() -> None:
    assert parse_dump(pickle.dumps(dump(entry(input_dtypes="Half")))).record(0).signature.input_dtypes == ("Half",)
