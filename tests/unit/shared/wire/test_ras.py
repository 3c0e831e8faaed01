"""RAS reports of every version become the same values, and hostile ones an error of ours."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import InvalidInput
from shared.formats.ras.parse import LARGEST_REPORT, parse_ras
from shared.wire.ras import Communicator, Launched, RasNetwork, RasStatus
from tests.system.ras.reports import Comm, Member, comm, json_report, text_report

LAGGARD = comm([64] * 7 + [60])


def only(network: RasNetwork) -> Communicator:
    (one,) = network.communicators
    return one


@pytest.mark.parametrize("version", ["2.28.7", "2.28.9", "2.29.2", "2.31.2"])
def test_json_tells_every_rank(version: str) -> None:
    network = parse_ras(json_report([LAGGARD], version=version))
    one = only(network)
    assert (network.nccl_version, network.told_at, network.whole) == (version, "2026-05-04 03:12:09", True)
    assert one.key == ("0x9d2f00c1a7e45b33", "0xb7e7:0xb824")
    assert one.launched["all_reduce"] == (Launched(60, 1, "7"), Launched(64, 7, "0-6"))
    assert one.launched["all_gather"] == (Launched(0, 8, "0-7"),)
    assert [network.peers[at].pid for at in one.peers] == [4000 + rank for rank in range(8)]


@pytest.mark.parametrize(
    ("version", "op"), [("2.24.3", "collective"), ("2.25.1", "collective"), ("2.26.2", "all_reduce")]
)
def test_text_tells_the_odd_ones(version: str, op: str) -> None:
    network = parse_ras(text_report([LAGGARD], version=version), whole=True)
    one = only(network)
    assert (network.nccl_version, network.whole, one.size) == (version, False, 8)
    assert one.launched == {op: (Launched(60, 1, "7"), Launched(64, 7, ""))}
    assert [(peer.host, peer.pid, peer.gpu) for peer in network.peers] == [("10.3.0.14", 4007, "7")]


def test_text_lists_smaller_sets_only() -> None:
    """The many are a number; where two sets are equally large neither is listed."""
    few = only(parse_ras(text_report([comm([412] * 6 + [411] * 2)])))
    assert few.launched["all_reduce"] == (Launched(411, 2, "6-7"), Launched(412, 6, ""))
    halves = only(parse_ras(text_report([comm([412] * 4 + [411] * 4)])))
    assert halves.launched["all_reduce"] == (Launched(411, 4, ""), Launched(412, 4, ""))


def test_ranks_that_launched_nothing() -> None:
    one = only(parse_ras(text_report([comm([3, 3, 3, 3, 0])])))
    assert one.launched["all_reduce"] == (Launched(0, 1, "4"), Launched(3, 4, ""))


TROUBLED = comm(
    [64] * 8,
    r2=Member(2, status="NOCOMM"),
    r3=Member(3, status="silent", nvml=5),
    r4=Member(4, status="ABORT", counts={"AllReduce": 64}),
    r7=Member(7, status="dead"),
)


@pytest.mark.parametrize("report", [json_report([TROUBLED]), json_report([TROUBLED], version="2.28.9")])
def test_json_tells_who_is_missing(report: bytes) -> None:
    """2.28.9 leaves commas out exactly there."""
    network = parse_ras(report)
    told = {standing.word: standing.ranks for standing in only(network).standings}
    assert told == {"abort": "4", "dead": "7", "nocomm": "2", "running": "0-1,5-6", "silent": "3"}
    assert {peer.pid: peer.status for peer in network.peers if peer.status is not RasStatus.RUNNING} == {
        4003: RasStatus.SILENT,
        4007: RasStatus.DEAD,
    }


@pytest.mark.parametrize(("version", "nocomm"), [("2.24.3", "unknown"), ("2.30.7", "nocomm")])
def test_text_tells_who_is_missing(version: str, nocomm: str) -> None:
    network = parse_ras(text_report([TROUBLED], version=version))
    told = {standing.word: (standing.number, standing.ranks) for standing in only(network).standings}
    assert told == {"abort": (1, "4"), nocomm: (1, "2"), "running": (4, ""), "silent": (2, "3,7")}
    assert {peer.pid: peer.status for peer in network.peers if peer.status is not RasStatus.RUNNING} == {
        4003: RasStatus.SILENT,
        4007: RasStatus.DEAD,
    }


def test_nothing_collected_is_a_report() -> None:
    """It is what remains when the last process is gone, and no sign of health."""
    network = parse_ras(text_report([Comm((Member(0, status="dead"),))]))
    assert [peer.status for peer in network.peers] == [RasStatus.DEAD]
    assert network.communicators[0].launched == {}


def test_indented_report_of_a_document() -> None:
    """People paste reports with an indent."""
    indented = b"\n".join(b"    " + line for line in text_report([LAGGARD]).splitlines())
    assert parse_ras(indented) == parse_ras(text_report([LAGGARD]))


def test_errors_of_ranks() -> None:
    one = only(parse_ras(json_report([comm([1] * 3, r1=Member(1, error=1, counts={"AllReduce": 1}))])))
    assert [(told.word, told.ranks) for told in one.errors] == [("unhandled CUDA error", "1")]
    text = text_report([LAGGARD]).replace(
        b"Warnings",
        b"#0-0 (9d2f00c1a7e45b33) ERROR\n  Asynchronous error on 1 rank\n"
        b"  Rank 1 reported Unhandled CUDA error -- GPU 1 managed by process 4001 on node 10.3.0.14\n\nWarnings",
    )
    assert [(told.word, told.ranks) for told in only(parse_ras(text)).errors] == [("unhandled cuda error", "1")]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"OK\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"{}",
        b'{"communicators": 3}',
        b'{"communicators": [3]}',
        b'{"communicators": [{"hash": 7, "size": 2, "ranks": []}]}',
        b'{"communicators": [{"hash": "0x1", "size": -2, "ranks": []}]}',
        b'{"communicators": [{"hash": "0x1", "size": 1e99, "ranks": []}]}',
        b'{"communicators": [{"hash": "0x1", "size": true, "ranks": []}]}',
        b'{"communicators": [], "ras": []}',
        b'{"communicators":' + b"[" * 200_000,
        b'{"communicators": [' + b"9" * 5_000 + b"]}",
        b"{" * 9_000_000,
        json_report([LAGGARD])[:-40],
        json_report([LAGGARD]).replace(b'"rank": 3', b'"rank": 99999999999'),
        json_report([LAGGARD]).replace(b'"pid": 4003', b'"pid": "4003"'),
        json_report([LAGGARD]).replace(b'"AllReduce": 60', b'"AllReduce": null'),
    ],
)
def test_what_is_no_report(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_ras(data)


def test_text_that_ends_early_is_refused_where_all_is_needed() -> None:
    cut = text_report([LAGGARD]).partition(b"Warnings")[0]
    assert parse_ras(cut).known == 1
    with pytest.raises(InvalidInput, match="ends early"):
        parse_ras(cut, whole=True)
    with pytest.raises(InvalidInput, match="at most"):
        parse_ras(b" " * (LARGEST_REPORT + 1))


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1' + b"\n" * 4_000_000,
        b'{"a": 1' + b" \n" * 2_000_000 + b'"b": 2}',
        b"NCCL version 2.30.7 compiled with CUDA 12.8\n" + b"  7 ranks" * 1_000_000,
        b"NCCL version 2.30.7 compiled with CUDA 12.8\n"
        + b"#0-0 (1) MISMATCH\n"
        + b"The missing ranks: "
        + b"1," * 999_999,
        b"NCCL version 2.30.7 compiled with CUDA 12.8\n" + b"Rank 1 reported " + b"a " * 1_000_000,
    ],
)
def test_no_input_runs_away(data: bytes) -> None:
    began = time.thread_time()
    try:
        parse_ras(data)
    except InvalidInput:
        pass
    assert time.thread_time() - began < 2.0


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_reports_raise_nothing_else(data: st.DataObject) -> None:
    """Whatever is cut out, doubled or overwritten: a value or InvalidInput."""
    report = data.draw(st.sampled_from([json_report([TROUBLED]), text_report([TROUBLED]), text_report([LAGGARD])]))
    at = data.draw(st.integers(0, len(report) - 1))
    length = data.draw(st.integers(0, 60))
    junk = data.draw(st.one_of(st.binary(max_size=8), st.sampled_from([b"-1", b"1e9", b"null", b'"', b"{", b"9" * 30])))
    try:
        network = parse_ras(report[:at] + junk + report[at + length :])
    except InvalidInput:
        return
    assert RasNetwork.model_validate_json(network.model_dump_json()) == network


LOST_APART = """NCCL version 2.25.1 compiled with CUDA 12.6

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 51207 on node 10.9.0.4 managing GPU 3

#0-0 (77aa01b2c3d4e5f6) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 11

Warnings
========
"""


def test_a_missing_rank_is_the_one_process_that_is_listed_as_dead() -> None:
    """Older reports list the two apart."""
    network = parse_ras(LOST_APART.encode())
    (one,) = network.communicators
    assert [(standing.word, standing.ranks) for standing in one.standings] == [(RasStatus.DEAD.value, "11")]
    assert [network.peers[at][:2] for at in one.peers] == [("10.9.0.4", 51207)]


def test_of_more_missing_ranks_than_lost_processes_none_is_tied() -> None:
    text = LOST_APART.replace("from 1 rank", "from 2 ranks").replace("rank: 11", "ranks: 11,12")
    (one,) = parse_ras(text.encode()).communicators
    assert [(standing.word, standing.ranks) for standing in one.standings] == [(RasStatus.SILENT.value, "11-12")]


def test_missing_ranks_may_stand_without_a_status_and_a_process() -> None:
    report = {
        "communicators_count": 1,
        "communicators": [
            {
                "hash": "0x7",
                "size": 4,
                "ranks": [],
                "missing_ranks": [{"rank": 2, "considered_dead": True}, {"rank": 3}],
            }
        ],
    }
    (read,) = parse_ras(json.dumps(report).encode()).communicators
    told = {standing.word: standing.ranks for standing in read.standings}
    assert told == {RasStatus.DEAD.value: "2", RasStatus.NOCOMM.value: "3"}
