"""NCCL's call lines: whose they are, on which communicator, and what hostile or mangled ones cost."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.formats.logs.nccl_calls import find_communicators
from shared.wire.nccl_calls import LoggedCall, LoggedCommunicator


def header(pid: int = 42, host: str = "node1") -> str:
    return f"{host}:{pid}:{pid + 9} [0] NCCL INFO "


def call(op: str = "AllReduce", number: int = 0, count: int = 64, comm: str = "0x55d0", size: int = 4) -> str:
    return (
        f"{op}: opCount {number:x} sendbuff 0x7f00 recvbuff 0x7f01 count {count} datatype 7 op 0 root 0 comm {comm} "
        f"[nranks={size}] stream 0x55e0"
    )


def init(comm: str = "0x55d0", rank: int = 1, size: int = 4, tail: str = "commId 0x9f2c", verb: str = "") -> str:
    return f"{verb}comm {comm} rank {rank} nranks {size} cudaDev 0 nvmlDev 0 busId 30 {tail} - Init START"


def only(lines: list[str], **how: bool) -> LoggedCommunicator:
    (communicator,) = find_communicators(lines, **how)
    return communicator


def test_numbers_are_hexadecimal_and_the_communicator_is_known_by_its_init_line() -> None:
    lines = [header() + init(), *(header() + call(number=number) for number in (0x1E, 0x1F))]
    found = only(lines)
    assert (found.host, found.pid, found.identity, found.comm_rank, found.size) == ("node1", 42, "0x9f2c", 1, 4)
    assert found.calls[-1] == LoggedCall(31, "AllReduce", 64, 7, 0, 0)
    assert found.counted
    assert not found.cut


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (init(verb="[Rank 1] ncclCommInitRank "), "parent 0x55d0 childCount 2 color -7 key 1"),
        (init(verb="ncclCommInitRankConfig "), "parent 0x55d0 splitCount 2 color -7 key 1"),
    ],
)
def test_splits_are_known_by_their_parent(first: str, second: str) -> None:
    child = init("0x66", rank=0, size=2, tail=second, verb="ncclCommSplit ").replace(" - Init", "- Init")
    found = find_communicators([header() + first, header() + child, header() + call(comm="0x66", size=2)])
    assert [each.identity for each in found] == ["0x9f2c", "0x9f2c/2/-7"]


def test_a_split_that_tells_no_number_or_has_an_unknown_parent_is_anonymous() -> None:
    lines = [header() + init("0x66", size=2, tail="parent 0x99 splitCount 1 color 3 key 0")]
    assert only(lines).identity == ""
    lines = [header() + init(), header() + init("0x66", size=2, tail="parent 0x55d0 color 3 key 0")]
    assert [each.identity for each in find_communicators(lines)] == ["0x9f2c", ""]


def test_a_pointer_that_is_used_again_is_another_communicator() -> None:
    lines = [header() + init(), header() + call(), header() + init(tail="commId 0xaa"), header() + call(count=9)]
    found = find_communicators(lines)
    assert [(each.identity, len(each.calls)) for each in found] == [("0x9f2c", 1), ("0xaa", 1)]


def test_the_nearest_header_before_a_call_tells_whose_it_is() -> None:
    """Two processes in one line, and a launcher's prefix."""
    line = f"(Trainer pid=615, ip=10.1.2.3) {header(42)}{header(43)}{call()} task 0 globalrank 3"
    found = only([line])
    assert (found.pid, found.rank) == (43, 3)


def test_a_mangled_call_or_a_last_line_that_is_cut_is_told() -> None:
    assert only([header() + call(), header() + "AllReduce: opCount 1 sendb" + header(43)]).cut
    assert only([header() + call()], ended=False).cut


def test_a_stream_that_others_write_too_lacks_what_is_still_in_the_buffer() -> None:
    assert only([header() + call(), "step 3"]).cut
    assert not only(["NCCL version 2.30.7+cuda12.8", "", header() + call()]).cut


def test_calls_without_numbers_are_counted_where_the_log_is_whole() -> None:
    """NCCL 2.27 prints opCount 0 on a single node."""
    calls = [header() + call(count=count) for count in range(600)]
    found = only([header() + init(), *calls])
    assert (found.counted, found.calls[0].number, found.calls[-1].number) == (True, 344, 599)
    assert not only([header() + init(), *calls], whole=False).counted
    assert not only(calls).counted


@pytest.mark.parametrize(
    "line",
    [
        "AllReduce: opCount 0 is what NCCL says",
        header() + "AllReduce: opCount zz sendbuff 0x1 recvbuff 0x1 count 1 datatype 7",
        header() + "comm 0x55 rank one nranks 4 cudaDev 0 - Init START",
        call(),
        "",
    ],
)
def test_near_misses(line: str) -> None:
    assert find_communicators([line]) == ()


@given(
    st.lists(st.sampled_from([header(), call(), init(), " ", "\x00", "opCount ", " nranks ", "node1:1:1 [", ":1" * 9]))
)
def test_no_line_breaks_it(pieces: list[str]) -> None:
    find_communicators(["".join(pieces)])


@pytest.mark.parametrize(
    "filler", ["a", ":1", "node:1:1 [0] ", "comm 0x1 rank 1 nranks 1 cudaDev ", "AllReduce: opCount 1 "]
)
def test_no_line_takes_long(filler: str) -> None:
    begun = time.process_time()
    find_communicators([" nranks opCount " + filler * 5000] * 20)
    assert time.process_time() - begun < 1
