"""What is found in log lines, and what is not: tables of lines made up in the grammar of the programs."""

import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.formats.logs.parse import find_events
from shared.formats.logs.rows_all import MATCHERS, canonical_op
from shared.wire.log_events import EventKind, LogEvent


def events(text: str, rank: int | None = None) -> tuple[LogEvent, ...]:
    """Find the events of a log."""
    return find_events(text.split("\n"), path="/var/log/train.log", rank=rank)


LINES = [
    (row["line"], EventKind(row["kind"]), row.get("rank"), row["fields"])
    for row in tomllib.loads(Path(__file__).with_name("lines.toml").read_text())["lines"]
]
"""Real lines, at least one for each row of the pack."""


@pytest.mark.parametrize(("line", "kind", "rank", "fields"), LINES, ids=[line[:40] for line, *_ in LINES])
def test_lines(line: str, kind: EventKind, rank: int | None, fields: dict[str, str]) -> None:
    """Each is found once, with the parts that matter."""
    (event,) = events(line)
    assert (event.kind, event.rank) == (kind, rank)
    assert fields.items() <= event.fields.items()
    assert event.path == "/var/log/train.log"


@pytest.mark.parametrize(
    "line",
    [
        "step 31 loss 0.25 watchdog fed",
        "The node 'gpu-7_4242_0' has failed to shutdown the rendezvous '7' due to RendezvousConnectionError",
        "RuntimeError: DataLoader worker (pid 6120) is killed by signal: Terminated. ",
        "E0213 rendezvous.cc:98] This thread has been waiting for `all gather; run_id=7` for 20 seconds.",
        "Stalled ops: HorovodAllreduce_a_0 [ready ranks: 0, 1, 2]",
        "Process name: [[4242,1],6] and nothing of its end",
        "Watchdog caught collective operation timeout: (none)",
        "INFO: no timeout at NCCL work, all is well",
        "[rank0]: Ranks passed the monitoredBarrier in 3 ms",
        "waiting for clients of the shop",
        "last enqueued work: none",
        "CUDA memory is fine",
        "connect to nobody returned nothing",
        "srun: job 4242 queued and waiting for resources",
        "Traceback (most recent call last):",
        "ValueError: printed by a user, without a traceback before it",
        "finished collective #6 and joined #7",
        "Heartbeat monitor is fine",
        "NET/IB : No device found.",
        "node1:42:51 [0] NCCL INFO Using network Socket",
        '[rank6]:[W1016 08:52:32.551] Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has '
        "shut down too early), with error: Broken pipe",
        "CUDA error rate: 0.0",
        "local_rank: 2 is up (local_rank: 2)",
        "collective mismatch error: none",
        "rank 3 is a number, [rank] is not",
        "exitcode is 0 (pid: 4245)",
        "Signal handlers received by PID file",
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
        "space left on device: 3 GiB",
        "Rank 3: no NaN found in gradients",
        "loss: nan",
        "node1:42:51 [0] NCCL INFO Call to connect returned Connection refused, retrying",
        "node1:42:51 [0] NCCL INFO Connect to peer done",
        "proxy.cc:1519 NCCL WARN [Proxy Service 3] Failed to execute operation Connect from rank 3, retcode 6",
        "[gpu-7:4242:0]  select.c:1084 UCX  DEBUG no shared memory transport to <no debug data>",
        "[gpu-7:4242:0] Caught signal 15 (Terminated)",
        "*** SIGTERM (@0x1) received by PID 4242 (TID 0x7f01) from PID 1; stack trace: ***",
        "=   PID 4242 RUNNING AT gpu-7\n=   EXIT CODE: 1",
        "/opt/nvshmem_src/src/modules/transport/ibrc/ibrc.cpp:nvshmemt_init:275: init failed for transport: IBGDA",
        "2026:11:21-09:10:11:( 4242) |CCL_WARN| could not get local_idx/count from environment variables",
        "HcclCommInitRootInfo(numRanks, &rootInfo, rank, config), error code is none",
        "The node with node id: 5d1c88 was drained by the autoscaler",
        "debug1: ssh: connecting to host gpu-7",
        "Device[6] has a heartbeat",
        "NET/OFI Selected Provider is efa (found 4 nics)",
        "libfabric:4242:1763716211::core:core:fi_getinfo():1368<info> Found provider with the highest priority cxi",
        "NET/IB : mlx5_0:1 Got async event : GID table change",
        "the address is already in use by the model",
        "",
    ],
)
def test_near_misses(line: str) -> None:
    """What only sounds like it."""
    assert events(line) == ()


def test_mismatch_of_debug_detail_tells_both_sides() -> None:
    """Nested brackets, and the short form without a comma."""
    (event,) = events(
        "Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint("
        "SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[21, 2], TensorDtypes=Float, TensorDeviceTypes=TensorOptions("
        "dtype=float (default), device=cpu)), but Rank 0 is running collective: CollectiveFingerPrint("
        "SequenceNumber=4OpType=BARRIER).Collectives differ in the following aspects: Op type: ALLREDUCEvs BARRIER"
    )
    assert event.kind is EventKind.COLLECTIVE_MISMATCH
    assert (event.fields["rank"], event.fields["op"], event.fields["shape"]) == ("1", "all_reduce", "21, 2")
    assert (event.fields["other_rank"], event.fields["other_op"]) == ("0", "barrier")
    assert (event.fields["sequence"], event.fields["other_sequence"]) == ("4", "4")


@pytest.mark.parametrize("hint", sorted({matcher.hint for matcher in MATCHERS}))
def test_no_line_takes_long(hint: str) -> None:
    """Each hint, repeated and followed by what its pattern would like to see."""
    for filler in (" ", "1", ", 1", "a", "(", "[rank1]:", "<" * 3):
        begun = time.thread_time()
        events((hint + filler * 3000) * 3)
        assert time.thread_time() - begun < 0.5


PIECES = st.sampled_from(
    [
        *sorted({matcher.hint for matcher in MATCHERS}),
        *(
            "[rank1]:",
            "[rank2]: ",
            "[PG ID 0 PG GUID 0(default_pg) Rank 1] ",
            "[1,2]<stderr>:",
            "node1:4:5 [0] NCCL WARN ",
        ),
        *(
            "Traceback (most recent call last):",
            "ValueError: x",
            "CollectiveFingerPrint(",
            "Rank 1 is running collective: ",
        ),
        *("[E1121 09:10:11.1 x.cpp:1] ", " ", "1", ", 2", "#9", "(", "<9>", "\x1b[31m", "\u0663", "\u2028"),
    ]
)


@given(st.lists(st.lists(PIECES, max_size=12).map("".join), max_size=12), st.none() | st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_whatever_a_job_writes_is_read_without_complaint(lines: list[str], rank: int | None) -> None:
    """And every event's line is one of them, cut and redacted."""
    for event in find_events(lines, path="x", rank=rank, written_at=1.8e9):
        assert len(event.text) <= 500
        assert all(len(value) <= 300 for value in event.fields.values())


def test_long_logs_are_quick() -> None:
    """Two thousand ordinary lines take milliseconds."""
    lines = [f"step {n} loss 0.25 connect to nothing, all is well" for n in range(2000)]
    begun = time.thread_time()
    find_events(lines, path="", rank=None)
    assert time.thread_time() - begun < 0.25


def test_operations_have_the_recorders_names() -> None:
    """c10d's OpType and the flight recorder spell them differently."""
    assert canonical_op("ALLREDUCE") == "all_reduce"
    assert canonical_op("_REDUCE_SCATTER_BASE") == "reduce_scatter_tensor"
    assert canonical_op("SEND") == "send"
