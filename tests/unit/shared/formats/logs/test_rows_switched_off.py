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
    ("node1:42:51 [0] NCCL INFO NCCL version 2.27.5+cuda12.9", EventKind.VERSION, {"nccl": "2.27.5"}),
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
    (
        "gpu-7:42:51 [3] transport/net_ib.cc:214 NCCL WARN NET/IB : Unable to open device mlx5_6",
        EventKind.INTERFACE,
        {"transport": "IB", "unopened": "mlx5_6", "writer_host": "gpu-7"},
    ),
    (
        "[gpu-7:4242:0:4251]       ud_iface.c:780  Fatal: transport error: Endpoint timeout",
        EventKind.TRANSPORT_ERROR,
        {"type": "Endpoint timeout", "writer_host": "gpu-7", "writer_pid": "4242"},
    ),
    (
        "[1763716211.123456] [gpu-7:4242:0]     ucp_worker.c:373  UCX  ERROR Error Endpoint timeout was not handled",
        EventKind.TRANSPORT_ERROR,
        {"type": "Endpoint timeout", "transport": "ucp_worker"},
    ),
    (
        "[gpu-7:4242 :0:4251]   ud_ep.c:263  UCX  ERROR UD endpoint 0x55d0 to <no debug data>: unhandled timeout error",
        EventKind.TRANSPORT_ERROR,
        {"type": "unhandled timeout error", "writer_host": "gpu-7"},
    ),
    (
        "[1763716211.123456] [gpu-7:4242:0]  select.c:438  UCX  ERROR no active messages transport to <no debug>: x",
        EventKind.TRANSPORT_ERROR,
        {"type": "no active messages transport"},
    ),
    (
        "[gpu-7:4242] pml_ucx.c:447  Error: Failed to resolve UCX endpoint for rank 6",
        EventKind.TRANSPORT_ERROR,
        {"type": "Failed to resolve UCX endpoint for rank 6", "transport": "pml_ucx"},
    ),
    (
        "[gpu-7:4242] UCXPY  DEBUG Error callback for endpoint 0x2b called with status -6: Destination is unreachable",
        EventKind.TRANSPORT_ERROR,
        {"type": "Destination is unreachable", "transport": "UCXPY"},
    ),
    (
        "gpu-7:42:51 [3] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error No such device",
        EventKind.TRANSPORT_ERROR,
        {"transport": "ibv_modify_qp", "type": "No such device", "writer_host": "gpu-7"},
    ),
    (
        "gpu-7:42:51 [3] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev "
        "mlx5_6:1, curr state INIT",
        EventKind.TRANSPORT_ERROR,
        {"type": "Connection timed out", "interface": "mlx5_6"},
    ),
    (
        "Failed to modify QP to RTR: Connection timed out",
        EventKind.TRANSPORT_ERROR,
        {"transport": "Failed to modify QP", "type": "Connection timed out"},
    ),
    (
        "gpu-7:42:51 [0] NCCL INFO Call to connect returned Connection timed out, retrying",
        EventKind.TRANSPORT_ERROR,
        {"transport": "NCCL", "type": "Connection timed out"},
    ),
    (
        "gpu-7:42:51 [0] proxy.cc:1519 NCCL WARN [Proxy Service 6] Failed to execute operation Connect from rank 6, "
        "retcode 2",
        EventKind.TRANSPORT_ERROR,
        {"transport": "Proxy Service", "type": "Failed to execute operation Connect"},
    ),
    (
        "[transport_manager.cc:954] [4250][InitChannelStage][RunFailed]Transport init error! createLink para:rank[3]-"
        "localUserrank[3]-localIpAddr[10.4.0.9/3], remoteRank[6]-remoteUserrank[6]-remoteIpAddr[10.4.0.12/3], x",
        EventKind.TRANSPORT_ERROR,
        {"type": "Transport init error", "peer": "10.4.0.12"},
    ),
    (
        "ssh: connect to host gpu-7.example port 2222: Connection refused",
        EventKind.RENDEZVOUS,
        {"caller": "ssh", "peer": "gpu-7.example"},
    ),
    (
        "ssh: Could not resolve hostname gpu-8: Temporary failure in name resolution",
        EventKind.RENDEZVOUS,
        {"caller": "ssh", "peer": "gpu-8"},
    ),
    (
        "to another process:\n  Local host:    gpu-1\n  Remote host:   gpu-7\n",
        EventKind.RENDEZVOUS,
        {"caller": "gpu-1", "peer": "gpu-7"},
    ),
    (
        "ValueError: TP rank 6 could finish the model loading, but there are other ranks that didn't finish loading.",
        EventKind.RENDEZVOUS,
        {"unmet": "didn't finish loading"},
    ),
    (
        "/opt/nvshmem_src/src/modules/transport/ibrc/ibrc.cpp:418: non-zero status: 110 ibv_modify_qp failed",
        EventKind.RENDEZVOUS,
        {"unstarted": "nvshmem"},
    ),
    (
        "2026:11:21-09:10:11:( 4242) |CCL_ERROR| atl_ofi.cpp:243 init: can't find suitable provider",
        EventKind.RENDEZVOUS,
        {"unstarted": "can't find suitable provider"},
    ),
    (
        "RuntimeError: oneCCL: exec.cpp:134 start_workers: EXCEPTION: failed to start worker # 2",
        EventKind.RENDEZVOUS,
        {"unstarted": "failed to start worker"},
    ),
    (
        "[op_base.cc:974][4242][Init][CommRootInfoConfig]errNo[0x0000000005000002]HcclCommInitRootInfo failed.",
        EventKind.RENDEZVOUS,
        {"unstarted": "cclCommInitRootInfo"},
    ),
    (
        "[rank6]: RuntimeError: create:compiler_depend.ts:89 HCCL function error: HcclCommInitRootInfo(numRanks, "
        "&rootInfo, rank, &(comm->hcclComm_)), error code is 7",
        EventKind.RENDEZVOUS,
        {"unstarted": "cclCommInitRootInfo"},
    ),
    (
        "EJ0001: 2026-11-21-09:10:11.123.456 Failed to initialize the HCCP process. Reason: Maybe the last training",
        EventKind.RENDEZVOUS,
        {"unstarted": "HCCP process"},
    ),
    (
        "from remote target unknown_target_for_coordination_leader while calling "
        "/tensorflow.CoordinationService/RegisterTask:",
        EventKind.RENDEZVOUS,
        {"unstarted": "RegisterTask"},
    ),
    (
        "jaxlib._jax.XlaRuntimeError: UNKNOWN: TPU initialization failed: open(/dev/accel6): Operation not permitted",
        EventKind.RENDEZVOUS,
        {"unstarted": "TPU initialization failed"},
    ),
    (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11)",
        EventKind.SIGNAL,
        {"exit_code": "-11"},
    ),
    (
        "[gpu-7:4242:0:4242] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x10)",
        EventKind.SIGNAL,
        {"died_on": "gpu-7", "pid": "4242", "signal": "11"},
    ),
    (
        "[gpu-7:4242:0] Caught signal 7 (Bus error: nonexistent physical address)",
        EventKind.SIGNAL,
        {"died_on": "gpu-7", "pid": "4242", "signal": "7"},
    ),
    (
        "*** SIGBUS (@0x7f00) received by PID 4242 (TID 0x7f01) from PID 512; stack trace: ***",
        EventKind.SIGNAL,
        {"handled": "SIGBUS", "pid": "4242"},
    ),
    (
        "=   PID 4242 RUNNING AT gpu-7\n=   EXIT CODE: 139",
        EventKind.SIGNAL,
        {"pid": "4242", "died_on": "gpu-7", "signal": "139"},
    ),
    (
        "=   RANK 6 PID 4242 RUNNING AT gpu-7\n=   KILLED BY SIGNAL: 11 (Segmentation fault)",
        EventKind.SIGNAL,
        {"pid": "4242", "signal": "11"},
    ),
    (
        "Process name: gpu-7[6]\nExit code: 134",
        EventKind.SIGNAL,
        {"horovodrun": "gpu-7", "first_to_end": "6", "status": "134"},
    ),
    (
        "The node with node id: 5d1c88 and address: 10.4.0.9 and node name: 10.4.0.9 has been marked dead because the "
        "detector has missed too many heartbeats from it.",
        EventKind.SIGNAL,
        {"ray": "node", "host": "10.4.0.9"},
    ),
    (
        "The node with client ID 5d1c88 has been marked dead because the monitor has missed too many heartbeats.",
        EventKind.SIGNAL,
        {"host": "5d1c88"},
    ),
    (
        "Owner Id: 02ff Owner Ip address: 10.4.0.9 Owner worker exit type: SYSTEM_ERROR Worker exit detail: "
        "Owner's node has crashed.",
        EventKind.SIGNAL,
        {"host": "10.4.0.9"},
    ),
    (
        ":0:rocdevice.cpp:3586: Callback: Queue 0x7f00 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL",
        EventKind.DEVICE_ERROR,
        {"what": "aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL"},
    ),
    (
        "        Device[6] lost heartbeat.[FUNC:SyncTask][FILE:direct_hwts_engine.cc][LINE:407]",
        EventKind.DEVICE_ERROR,
        {"what": "Device[6] lost heartbeat"},
    ),
    (
        "E1121 09:10:11.123456   4251 synchronous_driver.cc:820] [/dev/accel6 tpu12:pe1:6] !!!! FATAL ERROR !!!! for",
        EventKind.DEVICE_ERROR,
        {"what": "/dev/accel6 tpu12:pe1:6] !!!! FATAL ERROR"},
    ),
    (
        "DeepEP combine RDMA receiver timeout, channel: 4, RDMA: 0, nvl: 6, src RDMA: 1, head: 12, tail: 12",
        EventKind.WATCHDOG_TIMEOUT,
        {"deepep": "combine RDMA receiver timeout"},
    ),
    (
        "DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. This usually happens",
        EventKind.RENDEZVOUS,
        {"unmet": "Wait_for_all_tasks_to_register"},
    ),
    (
        "/job:jax_worker/replica:0/task:6 has been set to ERROR in coordination service: UNAVAILABLE: Task "
        "/job:jax_worker/replica:0/task:6 heartbeat timeout. This indicates that the remote task has failed",
        EventKind.SIGNAL,
        {"jax_task": "6"},
    ),
    ("RuntimeError: DeepEP error: timeout (dispatch CPU)", EventKind.WATCHDOG_TIMEOUT, {"deepep": "error: timeout"}),
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
