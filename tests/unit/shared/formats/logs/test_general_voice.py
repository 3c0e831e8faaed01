"""The general voice: which lines tell that somebody waited long, and which only look so."""

import pytest

from shared.formats.logs.general_voice import errors, seconds_waited, waits_said_again
from shared.formats.logs.parse import find_events
from shared.wire.log_events import EventKind


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("The client socket has timed out after 60s while trying to connect to 10.0.0.1:1234", 60.0),
        ("[2026-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)", 300.0),
        ("worker 3 is not responding for 2.5 minutes", 150.0),
        ("No available shared memory broadcast block found in 60 seconds.", 60.0),
        ("90000 ms without an answer: the loader is stuck", 90.0),
        ("waited 2 hours for the lock", 7200.0),
        ("No heartbeat for components: Sampler_w2 (337 seconds)", 337.0),
        ("removing worker-7: got no heartbeat in 60 seconds", 60.0),
        ("sends a heartbeat every 30 seconds", None),
        ("waiting for 5 s", None),
        ("connection timed out, retrying in 30 s", None),
        ("timeout set to 600 s", None),
        ("Epoch 5, Time 4981.4s, Loss 0.5731", None),
        ("Running: 18 reqs, Waiting: 43 reqs, GPU KV cache usage: 95.9%", None),
        ("Namespace(timeout=600, heartbeat_timeout=60, wait=30)", None),
        ("HTTP/1.1 200 OK in 30 s, response sent", None),
    ],
)
def test_lines(line: str, seconds: float | None) -> None:
    assert seconds_waited(line) == seconds


def _polls(*times: str, after: int = 0) -> list[str]:
    return [f"DEBUG 05-16 {time} [client.py:42] Waiting for 3 peers to start" for time in times] + ["step 7"] * after


@pytest.mark.parametrize(
    ("lines", "waited"),
    [
        (_polls("13:12:16", "13:12:26", "13:13:06"), [(2, 50.0)]),
        (_polls("23:59:50", "00:00:20"), [(1, 30.0)]),  # over midnight
        (_polls("13:12:16", "13:12:46", after=12), [(1, 30.0)]),
        (_polls("13:12:16", "13:12:46", after=40), []),  # over, by what the log says since
        (_polls("13:12:16", "13:12:18"), []),
        (_polls("13:12:16"), []),
        (["10:00:00 session 1", "Waiting for the model", "10:00:31 session 2", "Waiting for the model"], [(3, 31.0)]),
        (["waiting for rendezvous ...", "waiting for rendezvous ..."], []),  # nobody knows for how long
        (["10:00:00 waiting for the lock", "10:00:40 waiting for the queue"], []),
    ],
)
def test_a_wait_said_again_is_as_long_as_between_the_lines(lines: list[str], waited: list[tuple[int, float]]) -> None:
    assert list(waits_said_again(lines)) == waited


@pytest.mark.parametrize(
    ("line", "is_error"),
    [
        ("(Engine_DP0 pid=42) ERROR 01-12 02:58:31 [core.py:72] the engine met a fatal error", True),
        ("2026-11-21 09:10:11,123 - trainer - CRITICAL - no shard", True),
        ("2026-11-21 09:10:11.123246: E mesh/log.cc:11] could not meet 'init': Socket closed (14)", True),
        ("[2026-11-21 09:10:11,789 C 149 149] manager.cc:170: this node was marked as dead", True),
        ("E1121 09:10:11.123 42 mesh.cc:29] no peer", True),
        ("node1:42:44 [0] net.cc:12 NCCL WARN poll() returned 1", True),
        ("Exception in device=TPU:6: mesh.cc:29 : Check failed: channel->Wait()", True),
        ("this may indicate an application crash on rank 0", True),
        ("node1:42:44 [0] NCCL INFO transport/net.cc:515 -> 2", True),
        ("WARN Monitor:4e4c:Rank1 : kernel begins at work 55731 may hang in polling", True),
        ('node1:42:44 [0] init.cc:12 NCCL WARN Missing "iommu=pt", which can lead to instability or hang!', False),
        ("node1:42:44 [0] NCCL INFO Channel 00/0 : 0[4000] -> 1[5000] via P2P/IPC", False),
        ("trainer INFO - done, 0 errors", False),
        ("loaded /data/ERROR/part-3", False),
        ("WARNING: ERROR_LEVEL is deprecated", False),
        ("Epoch 3, error 0.12, loss 0.5", False),
        ("node1:42:44 [0] NCCL INFO Channel 00 : 0 1", False),
    ],
)
def test_errors_by_their_form(line: str, is_error: bool) -> None:
    assert errors([line]) == [0] * is_error


def test_errors_that_say_what_failed_come_first() -> None:
    assert errors(["ERROR | peer | port |", "step 3", "ERROR | 10.0.0.7 | time out |", "ERROR step 4"]) == [2, 0, 3]


def test_errors_are_told_of_a_log_alone_in_which_nothing_else_is_known() -> None:
    """Of each who wrote any the first two that differ."""
    unknown = [f"(Worker pid={pid}) ERROR step {step} refused" for pid in (41, 42) for step in (1, 2, 3)]
    unknown += ["(Worker pid=42) ERROR giving up", "(Worker pid=42) ERROR gone"]
    found = find_events(["step 1", *unknown], path="a.log", rank=None, voices=True)
    told = [(event.kind, event.number) for event in found if event.kind is not EventKind.LAST_LINE]
    assert told == [(EventKind.SAYS_ERROR, n) for n in (1, 4, 7)]
    known = [*unknown, "The client socket has timed out after 60s while trying to connect to 10.0.0.1:1234"]
    kinds = {event.kind for event in find_events(known, path="a.log", rank=None, voices=True)}
    assert kinds and EventKind.SAYS_ERROR not in kinds
    assert find_events(unknown, path="a.log", rank=None) == ()


def test_the_last_lines_alone_are_searched_for_errors() -> None:
    lines = ["(Worker pid=1) ERROR early"] + ["step"] * 2000 + ["(Worker pid=2) ERROR late"]
    assert [e.number for e in find_events(lines, path="a.log", rank=None, voices=True)] == [2001]


def _stops(lines: list[str], rank: int | None = None) -> list[int]:
    found = find_events(lines, path="a.log", rank=rank, voices=True)
    return [event.number for event in found if event.kind is EventKind.LAST_LINE]


@pytest.mark.parametrize(
    ("lines", "rank", "stops"),
    [
        (["loading", "step 1", "", "=====  ---"], None, [1]),
        (["loading shard 3 failed", "next", "step 1"], None, [0]),  # a trouble right above
        (["loading shard 3 failed", *["step"] * 10], None, [10]),  # … and one that is long over
        (["up", "rdzv_configs: {'timeout': 900}", "joining"], None, [2]),  # a setting is no trouble
        (["Running: 1 reqs", 'INFO: 10.1.2.3:591 - "GET /metrics HTTP/1.1" 200 OK'], None, [0]),
        (["step 1", "frame #1: c10d::recv()", "frame #2: main + 0x5f", "frame #3: start"], None, [1]),
        (["frame #1: check()", "frame #2: main", "frame #0: c10::Error::Error(std::string) + 0x96"], None, [0]),
        (["50%|Sending process 4041 the signal", "Sending process 40"], None, [0]),  # the excerpt cuts the last line
        (["[rank0]: a", "[rank1]: a", "[rank0]: b"], None, [1, 2]),
        (["[rank0]: a", "hello"], None, [0, 1]),
        (["[rank3]: a", "shard 3 is 90000 ms late: stuck"], 3, []),
        (["[rank0]: a", "[rank1]: shard 3 is 90000 ms late: stuck"], None, [0]),
        (["hello", "[rank1]: shard 3 is 90000 ms late: stuck"], None, []),  # who names no rank, beside what is told
        (["(Server pid=7) up", "step 1", "(Server pid=7) GET /health"], 3, [1]),  # another's line in a rank's file
    ],
)
def test_a_log_ends_where_it_hangs(lines: list[str], rank: int | None, stops: list[int]) -> None:
    assert _stops(lines, rank) == stops
