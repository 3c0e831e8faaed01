"""Every row of the tables of log lines is needed: without it, a line that it was made for is no longer read as it is.

A row that no line of a test needs is one that nobody would miss, or whose test is.
"""

import pytest

from shared.formats.logs import parse
from shared.formats.logs.row import Matcher
from shared.formats.logs.rows_all import MATCHERS
from shared.wire.log_events import EventKind
from tests.unit.shared.formats.logs.test_parse import LINES, events

Line = tuple[str, EventKind, dict[str, str]]

TOLD: list[Line] = [
    (
        "[rank0]:[E ProcessGroupNCCL.cpp:1414] [PG 1 Rank 0] Exception (either an error or timeout) detected by "
        "watchdog at work: 31, last enqueued NCCL work: 40, last completed NCCL work: 30.",
        EventKind.WATCHDOG_TIMEOUT,
        {"sequence": "31", "enqueued": "40", "completed": "30"},
    ),
    (
        "[PG 0 (default_pg) Rank 3] Observed flight recorder dump signal from another rank via TCPStore.",
        EventKind.DUMP_SIGNAL,
        {},
    ),
    ("[PG 0 (default_pg) Rank 3] First watchdog to set the dump signal.", EventKind.DUMP_SIGNAL, {}),
    (
        "[PG 0 (default_pg) Rank 3] ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1",
        EventKind.DUMP_SIGNAL,
        {},
    ),
    ("  missing ranks: {1, 5}", EventKind.WATCHDOG_TIMEOUT, {"never_joined": "1, 5"}),
    (
        "RuntimeError: Application timeout caused pair closure",
        EventKind.TRANSPORT_ERROR,
        {"type": "Application timeout caused pair closure"},
    ),
    (
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        EventKind.TRANSPORT_ERROR,
        {"type": "ncclRemoteError"},
    ),
    (
        "[Rank 2] NCCL watchdog thread terminated with exception: NCCL error: remote process exited or there was a "
        "network error, NCCL version 2.18.5",
        EventKind.TRANSPORT_ERROR,
        {"type": "remote process exited or there was a network error"},
    ),
    (
        "[Rank 1] Collective WorkNCCL(SeqNum=89, OpType=ALLREDUCE, Timeout(ms)=1800000) raised the following async "
        "exception: NCCL error: unhandled system error, NCCL version 2.14.3",
        EventKind.TRANSPORT_ERROR,
        {"sequence": "89", "op": "all_reduce", "type": "NCCL error: unhandled system error"},
    ),
    (
        "Waiting in store based barrier to initialize process group for rank: 3, key: store_based_barrier_key:1 "
        "(world_size=4, worker_count=3, timeout=0:30:00)",
        EventKind.RENDEZVOUS,
        {"waiter": "3", "expected": "4", "joined": "3"},
    ),
    (
        "RuntimeError: Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:144] no error",
        EventKind.RENDEZVOUS,
        {"unstarted": "connectFullMesh failed"},
    ),
    (
        "node1:42:51 [0] misc/shmutils.cc:72 NCCL WARN Error while attaching to shared memory segment "
        "/dev/shm/nccl-a1b2c3 (size 9637888), error: No such file or directory (2)",
        EventKind.RENDEZVOUS,
        {"unstarted": "shared memory segment"},
    ),
    (
        "ValueError: host not found: Name or service not known",
        EventKind.RENDEZVOUS,
        {"unstarted": "host not found"},
    ),
    (
        "node1:42:51 [0] include/socket.h:344 WARN Socket creation failed : Address family not supported by protocol",
        EventKind.RENDEZVOUS,
        {"unstarted": "Socket creation failed"},
    ),
    (
        "node1:42:51 [0] bootstrap.cc:123 NCCL WARN Bootstrap Root : mismatch in rank count from procs 8 : 4",
        EventKind.RENDEZVOUS,
        {"unstarted": "mismatch in rank count"},
    ),
    (
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you "
        "tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)",
        EventKind.OUT_OF_MEMORY,
        {"type": "DefaultCPUAllocator: can't allocate memory"},
    ),
    ("RuntimeError: HIP error: invalid device ordinal", EventKind.DEVICE_ERROR, {"what": "invalid device ordinal"}),
    (
        "W1121 10:00:00.000000 4242 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, "
        "shutting down workers",
        EventKind.SIGNAL,
        {"signal": "15"},
    ),
    ("[1,3]<stderr>:Killed", EventKind.SIGNAL, {"speaker": "3", "shell": "Killed"}),
    ("srun: error: Node failure on node7", EventKind.SIGNAL, {"host": "node7"}),
    (
        "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3",
        EventKind.SIGNAL,
        {"left": "MPI_Abort", "first_to_end": "3"},
    ),
    (
        "mpiexec has exited due to process rank 3 with PID 4242 on\nnode node7 exiting improperly. There are three "
        "reasons this could occur:",
        EventKind.SIGNAL,
        {"left": "exiting improperly", "first_to_end": "3", "died_on": "node7"},
    ),
    (
        "W1121 10:00:00.000000 4242 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4243 closing "
        "signal SIGHUP",
        EventKind.SIGNAL,
        {"hangup": "SIGHUP"},
    ),
    (
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4242 got signal: 1",
        EventKind.SIGNAL,
        {"hangup": "1"},
    ),
    (
        "error msg: Culprit rank 3; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[8]]'",
        EventKind.COLLECTIVE_MISMATCH,
        {"differs": "3", "error": "SIZE_OR_SYNTAX_MISMATCH"},
    ),
    (
        "torchft::lighthouse: INFO start: No quorum, only have 3 participants, need 4",
        EventKind.RENDEZVOUS,
        {"unmet": "No quorum", "replicas": "3", "quorum": "4"},
    ),
    (
        "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
        EventKind.RENDEZVOUS,
        {"unstarted": "ibv_reg_mr"},
    ),
    (
        "RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at /src/THC/a.cpp:7",
        EventKind.DEVICE_ERROR,
        {"status": "39", "what": "uncorrectable ECC error encountered"},
    ),
    ("[node7:42] *** Process received signal ***", EventKind.SIGNAL, {"died_on": "node7", "pid": "42"}),
    (
        "\tpid: 4242\n\tname: ab12WorkerDict_0:3\n",
        EventKind.SIGNAL,
        {"actor_pid": "4242", "actor": "ab12WorkerDict_0:3"},
    ),
    ("[node7:42] Signal: Bus error (7)", EventKind.SIGNAL, {"died_on": "node7", "signal": "7"}),
]
"""Lines beside those of `test_parse.py`, each of a row that none of those needs."""

ALL: list[Line] = [*TOLD, *((line, kind, fields) for line, kind, _, fields in LINES)]


def is_read(told: Line) -> bool:
    """Is it found for what it is, with the parts that matter?"""
    line, kind, fields = told
    return any(event.kind is kind and fields.items() <= event.fields.items() for event in events(line))


@pytest.mark.parametrize("told", TOLD, ids=[line[-60:] for line, *_ in TOLD])
def test_lines(told: Line) -> None:
    assert is_read(told), events(told[0])


@pytest.mark.parametrize("row", MATCHERS, ids=[f"{row.kind}-{row.hint}" for row in MATCHERS])
def test_without_its_row_a_line_is_not_read(row: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    made_for = [told for told in ALL if row.hint in told[0]]
    assert all(map(is_read, made_for))
    monkeypatch.setattr(parse, "MATCHERS", tuple(other for other in MATCHERS if other is not row))
    assert not all(map(is_read, made_for))
