"""What is found in log lines, and what is not: tables of lines made up in the grammar of the programs."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.formats.logs.parse import find_events
from shared.formats.logs.rows_all import MATCHERS, canonical_op
from shared.wire.log_events import EventKind, LogEvent


def events(text: str, rank: int | None = None) -> tuple[LogEvent, ...]:
    """Find the events of a log."""
    return find_events(text.split("\n"), path="/var/log/train.log", rank=rank)


LINES: list[tuple[str, EventKind, int | None, dict[str, str]]] = [
    (
        "node1:42:51 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 6 and rank 0 both on CUDA device f000",
        EventKind.RENDEZVOUS,
        None,
        {"unstarted": "Duplicate GPU", "writer_host": "node1", "writer_pid": "42"},
    ),
    (
        "MPI_ABORT was invoked on rank 6 in communicator MPI_COMM_WORLD",
        EventKind.SIGNAL,
        None,
        {"left": "MPI_ABORT", "first_to_end": "6"},
    ),
    (
        "['python', '--local_rank=6', '--lr', '1'] exits with return code = -11",
        EventKind.SIGNAL,
        None,
        {"local_rank": "6", "exit_code": "-11"},
    ),
    (
        "The client socket has timed out after 1800s while trying to connect to (node1.example, 29512).",
        EventKind.RENDEZVOUS,
        None,
        {"peer": "node1.example, 29512"},
    ),
    (
        "DistStoreError: Timed out after 301 seconds\nwaiting for clients. 3/8 clients joined.",
        EventKind.RENDEZVOUS,
        None,
        {"joined": "3", "expected": "8"},
    ),
    ("raise RendezvousClosedError()", EventKind.RENDEZVOUS, None, {"unmet": "Closed"}),
    ('    "message": "RendezvousTimeoutError: ",', EventKind.RENDEZVOUS, None, {"unmet": "Timeout"}),
    (
        "The node 'gpu-7.example_4242_0' has failed to send a keep-alive heartbeat to the rendezvous '7' due to an "
        "error of type RendezvousConnectionError.",
        EventKind.RENDEZVOUS,
        None,
        {"agent": "gpu-7.example", "unmet": "failed to send a keep-alive"},
    ),
    (
        "[Listen] socket type[1], listen on ip[10.1.2.3] and specific port[16671] fail. Please check the port status",
        EventKind.RENDEZVOUS,
        None,
        {"port": "16671", "taken": "fail"},
    ),
    (
        "node1:42:51 [0] transport/net_ib/p2p_resiliency.cc:325 NCCL WARN NET/IB: ncclIbResiliencyHandleDeviceFailure: "
        "Device 3 marked as failed. Initiating recovery? Yes",
        EventKind.TRANSPORT_ERROR,
        None,
        {"transport": "NET/IB", "interface": "3", "writer_host": "node1"},
    ),
    (
        "Stalled ranks:\n2026-04-05 06:07:08 UTC master.0 -- [1,0]<stderr>:3: [HorovodAllreduce_a]",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"never_joined": "3"},
    ),
    (
        "Stalled ops: loss_0 [ready ranks: 3], dense_kernel_0 [ready ranks: 2, 0, 1], dense_bias_0 [ready ranks: 1]",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"never_joined": "3", "ready": "0, 1, 2"},
    ),
    (
        "F1121 rendezvous.cc:127] Termination timeout for `all gather; run_id=7` of 40 seconds exceeded. Exiting to "
        "ensure a consistent program state. Expected 8 threads to join the rendezvous, but only 7 of them arrived.",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"xla_seconds": "40", "threads": "8", "came": "7"},
    ),
    ("  Process name: [[4242,1],6]\n  Exit code:    3", EventKind.SIGNAL, None, {"first_to_end": "6", "status": "3"}),
    (
        "[rank2]: RuntimeError: DataLoader worker (pid(s) 61, 62) exited unexpectedly",
        EventKind.SIGNAL,
        2,
        {"loader": "61", "loader_left": "exited unexpectedly"},
    ),
    ("\tnamespace: 5d1c-88\n\tip: 10.1.2.3", EventKind.SIGNAL, None, {"actor_on": "10.1.2.3"}),
    (
        "mpirun noticed that process rank 1 with PID 0 on node node7 exited on signal 9 (Killed).",
        EventKind.SIGNAL,
        None,
        {"ended_rank": "1", "died_on": "node7", "signal": "9"},
    ),
    (
        "  Remote daemon: [[4242,0],1] on node job-worker-1",
        EventKind.SIGNAL,
        None,
        {"launcher": "Remote daemon", "host": "job-worker-1"},
    ),
    (
        "[node1:42:0:51] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 …)",
        EventKind.TRANSPORT_ERROR,
        None,
        {"transport": "ib_mlx5", "type": "Transport retry count exceeded"},
    ),
    (
        "[node1:42 :0:51] ib_mlx5_log.c:115  FATAL: Error on mlx5_3:1 QP 0xe6d7 wqe[7]: Transport retry count exceeded",
        EventKind.TRANSPORT_ERROR,
        None,
        {"transport": "ib_mlx5", "interface": "mlx5_3", "type": "Transport retry count exceeded"},
    ),
    (
        "[rank3]:[E1121 09:10:11.123456789 ProcessGroupNCCL.cpp:655] [Rank 3] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for "
        "600041 milliseconds before timing out.",
        EventKind.WATCHDOG_TIMEOUT,
        3,
        {"sequence": "812", "op": "all_reduce", "timeout_ms": "600000", "elapsed_ms": "600041", "backend": "NCCL"},
    ),
    (
        "[E ProcessGroupNCCL.cpp:828] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, "
        "OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800100 milliseconds before timing out.",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"sequence": "12", "op": "broadcast"},
    ),
    (
        "Watchdog caught collective operation timeout: WorkHCCL(OpType=_ALLGATHER_BASE, Timeout(ms)=9) ran for 10ms",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"op": "all_gather_into_tensor", "backend": "HCCL"},
    ),
    (
        "[rank0]:[E ProcessGroupNCCL.cpp:1537] [PG 0 (default_pg) Rank 1] Timeout at NCCL work: 31, last enqueued "
        "NCCL work: 40, last completed NCCL work: 30.",
        EventKind.WATCHDOG_TIMEOUT,
        0,
        {"sequence": "31", "enqueued": "40", "completed": "30", "description": "default_pg", "group_rank": "1"},
    ),
    (
        "[rank7]:[E1121 09:10:11.1 ProcessGroupNCCL.cpp:2271] [PG ID 2 PG GUID 9(dp) Rank 3]  failure detected by "
        "watchdog at work sequence id: 88 PG status: last enqueued work: 90, last started work: 88 (ALLREDUCE), last "
        "completed work: -1",
        EventKind.WATCHDOG_TIMEOUT,
        7,
        {"sequence": "88", "enqueued": "90", "started": "88", "completed": "-1", "group": "9", "group_id": "2"},
    ),
    (
        "[rank1]:[E1121] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds "
        "without making progress in monitoring enqueued collectives.",
        EventKind.WATCHDOG_TIMEOUT,
        1,
        {"stuck_seconds": "480"},
    ),
    (
        "Could not acquire GIL within 300 ms on exit, possible GIL induced hang",
        EventKind.GIL,
        None,
        {"waited_ms": "300"},
    ),
    (
        "[rank2]:[E] Received a dump signal due to a collective timeout from  rank 5 and we will try our best to dump "
        "the debug info. Last enqueued NCCL work: 12, last completed NCCL work: 12.",
        EventKind.DUMP_SIGNAL,
        2,
        {"source": "rank 5", "enqueued": "12"},
    ),
    ("[rank1]:[E] First PG on this rank to signal dumping.", EventKind.DUMP_SIGNAL, 1, {}),
    (
        " - [1] finished collective #6, but didn't join collective #7 (count from 1)",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"ranks": "1", "not_joined": "7"},
    ),
    (
        "node1:12:13 [0] enqueue.cc:12 NCCL WARN Mismatched collective detected, please check your collective calls at "
        "and around rank 3.",
        EventKind.COLLECTIVE_MISMATCH,
        None,
        {"near": "3"},
    ),
    (
        "node1:12:13 [0] include/socket.h:77 NCCL WARN Your program may be hanging, this may be caused by a collective "
        "mismatch around rank 5. Please check your collective calls at and around this rank.",
        EventKind.COLLECTIVE_MISMATCH,
        None,
        {"near": "5", "guessed": "may"},
    ),
    (
        "  what():  [enforce fail at /src/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 24 vs 16. "
        "Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?",
        EventKind.COLLECTIVE_MISMATCH,
        None,
        {"received_bytes": "24", "expected_bytes": "16"},
    ),
    (
        "RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 30000 ms",
        EventKind.BARRIER_FAILED,
        None,
        {"ranks": "1, 3", "timeout_ms": "30000"},
    ),
    (
        "[rank2]: RuntimeError: Rank 2 successfully reached monitoredBarrier, but received errors while waiting for "
        "send/recv from rank 0. Please check rank 0 logs for faulty rank.",
        EventKind.BARRIER_FAILED,
        2,
        {"waiter": "2", "peer": "0"},
    ),
    (
        "RuntimeError: [/src/unbound_buffer.cc:78] Timed out waiting 30000ms for recv operation to complete",
        EventKind.TRANSPORT_ERROR,
        None,
        {"timeout_ms": "30000", "direction": "recv"},
    ),
    (
        "RuntimeError: [/src/pair.cc:553] Connection closed by peer [10.1.2.3]:40123. This is typically caused by",
        EventKind.TRANSPORT_ERROR,
        None,
        {"peer": "[10.1.2.3]:40123"},
    ),
    (
        "RuntimeError: [/src/pair.cc:537] Read error [10.1.2.3]:40123: Connection reset by peer. This is",
        EventKind.TRANSPORT_ERROR,
        None,
        {"peer": "[10.1.2.3]:40123", "type": "Connection reset by peer"},
    ),
    (
        "[2026-11-21 09:10:11] node1:12:13 [1] transport/net_ib/p2p.cc:648 NCCL WARN NET/IB: Got completion from peer "
        "10.1.2.3<40123> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RECV(128) vendor_err=129 localGid "
        "::ffff:10.1.2.4 remoteGids::ffff:10.1.2.3 hca mlx5_1",
        EventKind.TRANSPORT_ERROR,
        None,
        {"peer": "10.1.2.3<40123>", "status": "12", "interface": "mlx5_1"},
    ),
    (
        "node1:12:13 [0] NCCL WARN NET/IB : Got completion from peer 10.1.2.3<40123> with error 5, opcode 0, len 0",
        EventKind.TRANSPORT_ERROR,
        None,
        {"status": "5"},
    ),
    (
        "misc/socket.cc:52 NCCL WARN socketProgress: Connection closed by remote peer node7.example<40123>",
        EventKind.TRANSPORT_ERROR,
        None,
        {"peer": "node7.example<40123>"},
    ),
    (
        "[rank5]: socketPollConnect: connect to 10.1.2.3<40123> returned Connection timed out, exceeded error retry "
        "count after 35 attempts",
        EventKind.TRANSPORT_ERROR,
        5,
        {"peer": "10.1.2.3<40123>", "type": "Connection timed out"},
    ),
    (
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.",
        EventKind.RENDEZVOUS,
        None,
        {"joined": "3", "expected": "4"},
    ),
    (
        "The client socket has timed out after 60000ms while trying to connect to (node1.example, 29500).",
        EventKind.RENDEZVOUS,
        None,
        {"peer": "node1.example, 29500"},
    ),
    (
        "[3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', "
        "but store->get('0') got error: Socket Timeout",
        EventKind.RENDEZVOUS,
        None,
        {"waiter": "3", "peer": "0"},
    ),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of",
        EventKind.OUT_OF_MEMORY,
        None,
        {},
    ),
    (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4242.0. Some of the step tasks have been OOM Killed.",
        EventKind.OUT_OF_MEMORY,
        None,
        {"step": "4242.0"},
    ),
    (
        "slurmstepd: error: Detected 2 oom-kill event(s) in StepId=77.batch cgroup. Some of your processes may have",
        EventKind.OUT_OF_MEMORY,
        None,
        {"step": "77.batch", "count": "2"},
    ),
    (
        "(raylet) A worker died or was killed. Worker IP address: 10.4.0.9 Worker port: 10017 Worker PID: 6120 Worker "
        "exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2.",
        EventKind.SIGNAL,
        None,
        {"died_on": "10.4.0.9", "pid": "6120", "died": "SYSTEM_ERROR"},
    ),
    (
        "[multiproc_executor.py:140] Worker proc VllmWorker-5 died unexpectedly, shutting down executor.",
        EventKind.SIGNAL,
        None,
        {"worker": "VllmWorker-5"},
    ),
    (
        "ERROR multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 61 died, exit code: -11",
        EventKind.SIGNAL,
        None,
        {"pid": "61", "exit_code": "-11"},
    ),
    (
        "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGSEGV",
        EventKind.SIGNAL,
        None,
        {"spawned": "2", "ended_by": "SIGSEGV"},
    ),
    (
        "start.sh: line 8:  6120 Killed                  python main.py",
        EventKind.SIGNAL,
        None,
        {"pid": "6120", "shell": "Killed"},
    ),
    (
        "srun: error: Task launch for 77.1 failed on node gpu12: Job credential expired",
        EventKind.SIGNAL,
        None,
        {"host": "gpu12", "what": "Job credential expired"},
    ),
    ("  time      : 2026-04-05_06:07:08", EventKind.SIGNAL, None, {"seen_ended": "2026-04-05_06:07:08"}),
    (
        "HorovodAllgather_logits_0 [missing ranks: 2, 5]",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"never_joined": "2, 5"},
    ),
    (
        "Missing ranks:\n3: [HorovodAllreduce_conv1_0, HorovodAllreduce_conv2_0]",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"never_joined": "3"},
    ),
    ("/job:jax_worker/replica:0/task:6", EventKind.WATCHDOG_TIMEOUT, None, {"never_joined": "6"}),
    (
        "EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the "
        "Notify record from remote rank: [5]. base information: [streamID:[4]]",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"hccl": "Notify register", "awaited": "5"},
    ),
    (
        "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 77 params, while rank 0 has "
        "inconsistent 75 params.",
        EventKind.COLLECTIVE_MISMATCH,
        None,
        {"built_by": "1", "params": "77", "unlike": "0", "unlike_params": "75"},
    ),
    (
        "node3:9:8 [2] transport/net_ib.cu:788 NCCL WARN NET/IB : Got completion with error 4, opcode 1, len 3",
        EventKind.TRANSPORT_ERROR,
        None,
        {"transport": "NET/IB", "status": "4"},
    ),
    (
        "DistStoreError: Timed out after 61 seconds waiting for workers. 2/5 workers joined.",
        EventKind.RENDEZVOUS,
        None,
        {"joined": "2", "expected": "5"},
    ),
    (
        "DistNetworkError: The IPv4 network addresses of (head.example, 29511) cannot be retrieved (gai error: -2 - N",
        EventKind.RENDEZVOUS,
        None,
        {"peer": "head.example, 29511", "unresolved": "-2"},
    ),
    ("DistStoreError: wait timeout after 90000ms", EventKind.RENDEZVOUS, None, {"waited_ms": "90000"}),
    (
        "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:9kB",
        EventKind.OUT_OF_MEMORY,
        None,
        {"pid": "4242"},
    ),
    (
        "E1121 09:10:11.123 42 torch/distributed/elastic/multiprocessing/api.py:988] failed (exitcode: -9) local_rank: "
        "2 (pid: 4245) of binary: /srv/venv/bin/python",
        EventKind.SIGNAL,
        None,
        {"exit_code": "-9", "local_rank": "2", "pid": "4245"},
    ),
    ("srun: error: node7: tasks 8-12,14: Killed", EventKind.SIGNAL, None, {"host": "node7", "tasks": "8-12,14"}),
    (
        "  - [0] Timeout at collective: ALLREDUCE, #7",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"waiter": "0", "op": "all_reduce", "unfinished": "7"},
    ),
    (
        "[PG 0 Rank 2] Heartbeat monitor timed out! Process will be terminated after dumping debug info. "
        "workMetaList_.size()=2",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"unfinished_works": "2"},
    ),
    (
        "ranks [1, 2] are the lagging ranks that caused this timeout. They never joined any collectives",
        EventKind.WATCHDOG_TIMEOUT,
        None,
        {"never_joined": "1, 2"},
    ),
    (
        "[rank2]:[F1121 09:10:11.1 ProcessGroupNCCL.cpp:1306] [PG ID 0 PG GUID 0(default_pg) Rank 2] Terminating the "
        "process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
        EventKind.DUMP_SIGNAL,
        2,
        {"why": "ProcessGroupNCCL watchdog hang", "group": "0"},
    ),
    ("[rank2]: [Rank 2] we are taking the entire process down.", EventKind.SIGNAL, 2, {}),
    (
        "node1:42:51 [0] transport/net_ib.cc:667 NCCL WARN NET/IB : collective mismatch error local size 32768 remote "
        "1048576 addr 7f00 rkey 1 seq 1f/1f",
        EventKind.COLLECTIVE_MISMATCH,
        None,
        {"local_bytes": "32768", "remote_bytes": "1048576", "writer_host": "node1", "writer_pid": "42"},
    ),
    (
        "node1:42:51 [0] NCCL INFO [Service thread] Connection closed by localRank 2",
        EventKind.TRANSPORT_ERROR,
        None,
        {"local_rank": "2"},
    ),
    (
        "[W521 23:55:23.1 TCPStore.cpp:115] [c10d] recvVector failed on SocketImpl(fd=3, addr=[node1]:44074, "
        "remote=[node2]:29500): failed to recv, got 0 bytes",
        EventKind.RENDEZVOUS,
        None,
        {"peer": "[node2]:29500", "type": "failed to recv, got 0 bytes"},
    ),
    (
        "bootstrap.cc:48 NCCL WARN Bootstrap : no socket interface found",
        EventKind.RENDEZVOUS,
        None,
        {},
    ),
    (
        "node1:42:51 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.1.2.3<0>",
        EventKind.INTERFACE,
        None,
        {"transport": "IB", "devices": "[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]", "interface": "eth0"},
    ),
    (
        "node1:42:51 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.3<0>",
        EventKind.INTERFACE,
        None,
        {"transport": "Bootstrap", "address": "10.1.2.3", "writer_host": "node1"},
    ),
    (
        "[2026-11-21 12:45:41] node2:42:43 [0] p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'",
        EventKind.DEVICE_ERROR,
        None,
        {"status": "101", "what": "invalid device ordinal"},
    ),
    (
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        EventKind.DEVICE_ERROR,
        None,
        {"what": "an illegal memory access was encountered"},
    ),
    ("  rank      : 2 (local_rank: 2)", EventKind.SIGNAL, None, {"failed_rank": "2"}),
    ("Fatal Python error: Segmentation fault", EventKind.SIGNAL, None, {"what": "Segmentation fault"}),
    (
        "HW Exception by GPU node-2 (Agent handle: 0x55d0) reason :GPU Hang",
        EventKind.DEVICE_ERROR,
        None,
        {"what": "HW Exception by GPU node-2 (Agent handle: 0x55d0) reason :GPU Hang"},
    ),
    (
        "Memory access fault by GPU node-2 (Agent handle: 0x55d0) on address 0x7f00. Reason: Page not present or",
        EventKind.DEVICE_ERROR,
        None,
        {"what": "Memory access fault by GPU node-2"},
    ),
    ("  exitcode  : -9 (pid: 4245)", EventKind.SIGNAL, None, {"exit_code": "-9", "pid": "4245"}),
    (
        "  traceback : Signal 9 (SIGKILL) received by PID 4245",
        EventKind.SIGNAL,
        None,
        {"signal": "9", "pid": "4245"},
    ),
    (
        "terminate called after throwing an instance of 'c10::CUDAError'",
        EventKind.SIGNAL,
        None,
        {"terminated": "CUDAError"},
    ),
    (
        "node1:42:51 [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
        EventKind.EXCEPTION,
        None,
        {"type": "No space left on device", "writer_host": "node1"},
    ),
    (
        "AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel communication",
        EventKind.EXCEPTION,
        None,
        {"speaker": "3", "type": "found NaN"},
    ),
    (
        "node1:42:51 [0] NCCL WARN Net : Call to recv from 10.1.2.3<40123> failed : Connection reset by peer",
        EventKind.TRANSPORT_ERROR,
        None,
        {"peer": "10.1.2.3<40123>", "type": "Connection reset by peer"},
    ),
    (
        "node1:42:51 [0] NCCL WARN Call to connect to 10.1.2.3<40123> failed : Connection refused",
        EventKind.TRANSPORT_ERROR,
        None,
        {"peer": "10.1.2.3<40123>", "type": "Connection refused"},
    ),
    (
        "node1:42:51 [0] NCCL WARN socketStartConnect: Connect to 10.1.2.3<40123> failed : No route to host",
        EventKind.TRANSPORT_ERROR,
        None,
        {"peer": "10.1.2.3<40123>", "type": "No route to host"},
    ),
    (
        "node1:42:51 [0] NCCL WARN socketPollConnect: Connect to 10.1.2.3<40123> returned 113(No route to host)",
        EventKind.TRANSPORT_ERROR,
        None,
        {"peer": "10.1.2.3<40123>", "type": "No route to host"},
    ),
    (
        "node1:42:51 [0] nccl_net_ofi.c:120 NCCL WARN NET/OFI Request 0x7f00 completed with error. RC: 5. Error: 12 "
        "(Input/output error). Completed length: 0",
        EventKind.TRANSPORT_ERROR,
        None,
        {"transport": "NET/OFI", "writer_host": "node1"},
    ),
    (
        "libfabric:4242:1763716211::cxi:ep_data:cxip_report_send_err():85<warn> node1: TXC (0x12:0): Request dest_addr"
        ": 3 error: 0x1c (err: 5, ENTRY_NOT_FOUND)",
        EventKind.TRANSPORT_ERROR,
        None,
        {"transport": "libfabric"},
    ),
    (
        "node1:42:51 [0] ibvwrap.cc:120 NCCL WARN NET/IB : mlx5_0:1 Got async error event: port error",
        EventKind.TRANSPORT_ERROR,
        None,
        {"transport": "NET/IB", "interface": "mlx5_0", "type": "port error"},
    ),
    (
        "[W1121 socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already "
        "in use).",
        EventKind.RENDEZVOUS,
        None,
        {"port": "29500", "taken": "Address already in use"},
    ),
    (
        "RuntimeError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: 0, "
        "code: -98, name: EADDRINUSE, message: address already in use",
        EventKind.RENDEZVOUS,
        None,
        {"port": "29500"},
    ),
]


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
