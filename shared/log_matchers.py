"""What lines of PyTorch, Gloo, NCCL, torchrun, Slurm and the kernel tell: one row per kind of line.

Over each pattern stands a line that it must match, made up in the grammar of the program that prints it;
its origin stands behind. A pattern is tried only on lines that hold its `hint`, which keeps a log without
events nearly free. No pattern can backtrack far: repetitions are bounded or end at a character of their own.
"""

import re
from typing import NamedTuple

from shared.log_events import EventKind


class Matcher(NamedTuple):
    """One kind of line. Named groups become the event's fields; `op` is put into the recorder's spelling."""

    kind: EventKind
    hint: str
    pattern: re.Pattern[str]


def _row(kind: EventKind, hint: str, pattern: str) -> Matcher:
    return Matcher(kind, hint, re.compile(pattern))


_NCCL_COUNTS = (
    r"(?P<sequence>\d{1,18}),\s{1,30}last enqueued NCCL work: (?P<enqueued>-?\d{1,18}),"
    r"\s{1,30}last completed NCCL work: (?P<completed>-?\d{1,18})"
)
"""torch 2.3 to 2.5."""

MATCHERS = (
    # [rank3]:[E1121 09:10:11.123456789 ProcessGroupNCCL.cpp:655] [Rank 3] Watchdog caught collective operation
    #   timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for
    #   600041 milliseconds before timing out.                   torch 2.1 on; before: no Numel, before 1.11: no SeqNum
    _row(
        EventKind.WATCHDOG_TIMEOUT,
        "Watchdog caught collective operation timeout",
        r"Watchdog caught collective operation timeout:\s{0,30}Work(?P<backend>[A-Z0-9]{1,16})\("
        r"(?:SeqNum=(?P<sequence>\d{1,18}), )?OpType=(?P<op>\w{1,64}), (?:NumelIn=(?P<numel_in>\d{1,18}), {1,2}"
        r"NumelOut=(?P<numel_out>\d{1,18}), {1,2})?Timeout\(ms\)=(?P<timeout_ms>\d{1,18})\)"
        r"\s{1,30}ran for (?P<elapsed_ms>\d{1,18})",
    ),
    # [PG 0 (default_pg) Rank 1] Timeout at NCCL work: 31, last enqueued NCCL work: 40, last completed NCCL work: 30.
    _row(EventKind.WATCHDOG_TIMEOUT, "Timeout at NCCL work", r"Timeout at NCCL work: " + _NCCL_COUNTS),
    # [PG 1 Rank 0] Exception (either an error or timeout) detected by watchdog at work: 31, last enqueued NCCL work: …
    _row(EventKind.WATCHDOG_TIMEOUT, "detected by watchdog at work:", r"detected by watchdog at work: " + _NCCL_COUNTS),
    # [PG ID 0 PG GUID 0(default_pg) Rank 7]  failure detected by watchdog at work sequence id: 88 PG status: last
    #   enqueued work: 90, last started work: 88 (ALLREDUCE), last completed work: 87     torch 2.6 on, started 2.13 on
    _row(
        EventKind.WATCHDOG_TIMEOUT,
        "last enqueued work:",
        r"(?:at work sequence id: (?P<sequence>\d{1,18}) {1,4})?(?:PG status: )?"
        r"last enqueued work: (?P<enqueued>-?\d{1,18})"
        r"(?:,\s{1,30}last started work: (?P<started>-?\d{1,18})(?: \((?P<op>\w{1,64})\))?)?"
        r"(?:,\s{1,30}last completed work: (?P<completed>-?\d{1,18}))?",
    ),
    # [rank1]:[E… ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got
    #   stuck for 480 seconds without making progress in monitoring enqueued collectives.                torch 2.3 on
    _row(
        EventKind.WATCHDOG_TIMEOUT,
        "watchdog got stuck for",
        r"watchdog got stuck for (?P<stuck_seconds>\d{1,9}) seconds",
    ),
    # Could not acquire GIL within 300 ms on exit, possible GIL induced hang                                torch 2.3 on
    _row(EventKind.GIL, "Could not acquire GIL", r"Could not acquire GIL within (?P<waited_ms>\d{1,9}) ms"),
    # [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump signal due to a collective timeout from  rank 5 and we will
    #   try our best to dump the debug info. Last enqueued NCCL work: 12, last completed NCCL work: 12.   torch 2.5 on
    _row(
        EventKind.DUMP_SIGNAL,
        "Received a dump signal",
        r"Received a dump signal due to a collective timeout from {1,4}(?P<source>this local rank|rank \d{1,7})"
        r"(?:.{0,200}Last enqueued NCCL work: (?P<enqueued>-?\d{1,18}), last completed NCCL work: "
        r"(?P<completed>-?\d{1,18}))?",
    ),
    # Observed flight recorder dump signal from another rank via TCPStore.      First PG on this rank to signal dumping.
    _row(EventKind.DUMP_SIGNAL, "dump signal from another rank", r"Observed flight recorder dump signal"),
    _row(EventKind.DUMP_SIGNAL, "to signal dumping", r"First PG on this rank to signal dumping"),
    # - [1] finished collective #6, but didn't join collective #7 (count from 1)          TORCH_NCCL_DESYNC_DEBUG=1
    # - [0,2,3] joined but didn't finish collective #7 (count from 1)
    _row(
        EventKind.WATCHDOG_TIMEOUT,
        "collective #",
        r"\[(?P<ranks>[\d, .]{1,4000})\] (?:joined but didn't finish collective #(?P<unfinished>\d{1,18})"
        r"|finished collective #\d{1,18}, but didn't join collective #(?P<not_joined>\d{1,18}))",
    ),
    # worker.cc:12 NCCL WARN Mismatched collective detected, please check your collective calls at and around rank 3.
    _row(
        EventKind.COLLECTIVE_MISMATCH,
        "Mismatched collective detected",
        r"Mismatched collective detected.{0,80}around rank (?P<near>\d{1,7})",
    ),
    # [enforce fail at …/pair.cc:456] op.preamble.length <= op.nbytes. 24 vs 16. Received data size doesn't match
    #   expected size. Is there a distributed collective mismatch in your code?                         Gloo, torch 2.x
    _row(
        EventKind.COLLECTIVE_MISMATCH,
        "Received data size doesn't match expected size",
        r"(?:(?P<received_bytes>\d{1,18}) vs (?P<expected_bytes>\d{1,18})\. )?Received data size doesn't match",
    ),
    # RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 30000 ms
    _row(
        EventKind.BARRIER_FAILED,
        "failed to pass monitoredBarrier",
        r"Ranks? (?P<ranks>\d{1,7}(?:, \d{1,7}){0,5000}) failed to pass monitoredBarrier"
        r"(?: in (?P<timeout_ms>\d{1,12}) ms)?",
    ),
    # Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.
    _row(
        EventKind.BARRIER_FAILED,
        "successfully reached monitoredBarrier",
        r"Rank (?P<waiter>\d{1,7}) successfully reached monitoredBarrier, but received errors while waiting"
        r"(?: for send/recv from rank (?P<peer>\d{1,7}))?",
    ),
    # [… gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 30000ms for recv operation to complete
    _row(
        EventKind.TRANSPORT_ERROR,
        "Timed out waiting",
        r"Timed out waiting (?P<timeout_ms>\d{1,12})ms for (?P<direction>send|recv)",
    ),
    # [… gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.1.2.3]:40123. This is typically caused by …
    _row(
        EventKind.TRANSPORT_ERROR,
        "Connection closed by peer [",
        r"(?P<type>Connection closed by peer) (?P<peer>\[[^\]]{1,60}\]:\d{1,5})",
    ),
    # [… gloo/transport/tcp/pair.cc:537] Read error [10.1.2.3]:40123: Connection reset by peer
    _row(
        EventKind.TRANSPORT_ERROR,
        " error [",
        r"(?:Read|Write) error (?P<peer>\[[^\]]{1,60}\]:\d{1,5}): (?P<type>[A-Z][\w ]{1,60})",
    ),
    # Application timeout caused pair closure
    _row(EventKind.TRANSPORT_ERROR, "Application timeout caused", r"(?P<type>Application timeout caused pair closure)"),
    # NET/IB: Got completion from peer 10.1.2.3<40123> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=… hca mlx5_1
    # NET/IB : Got completion from peer 10.1.2.3<40123> with error 12, opcode 0, len 0, vendor err 129   NCCL 2.3-2.19
    _row(
        EventKind.TRANSPORT_ERROR,
        "Got completion from peer",
        r"Got completion from peer (?P<peer>\S{1,80})\s{1,30}with (?:error |status=(?:\w{1,40}\()?)(?P<status>\d{1,6})"
        r"(?:.{0,300}?hca (?P<interface>\w{1,40}))?",
    ),
    # socketProgress: Connection closed by remote peer node7.example<40123>      NCCL 2.16 on; before `Net : Connec…`
    _row(
        EventKind.TRANSPORT_ERROR,
        "Connection closed by remote peer",
        r"(?P<type>Connection closed by remote peer)(?: (?P<peer>\S{1,200}))?",
    ),
    # socketPollConnect: connect to 10.1.2.3<40123> returned Connection timed out, exceeded error retry count after 35 …
    _row(
        EventKind.TRANSPORT_ERROR,
        "connect to ",
        r"connect to (?P<peer>\S{1,200}) returned (?P<type>[A-Z][\w ]{1,60}),\s{1,30}exceeded error retry count",
    ),
    # ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
    _row(EventKind.TRANSPORT_ERROR, "ncclRemoteError:", r"(?P<type>ncclRemoteError): A call failed possibly"),
    # … watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, …
    _row(
        EventKind.TRANSPORT_ERROR,
        "remote process exited or there was",
        r"(?P<type>remote process exited or there was a network error)",
    ),
    # Collective WorkNCCL(SeqNum=89, OpType=ALLREDUCE, …) raised the following async exception: NCCL error: unhandled …
    _row(
        EventKind.TRANSPORT_ERROR,
        "raised the following async exception",
        r"Work[A-Z0-9]{1,16}\(SeqNum=(?P<sequence>\d{1,18}), OpType=(?P<op>\w{1,64})[^)]{0,200}(?:\)[^)]{1,200})?\)"
        r" raised the following async exception: (?P<type>[^\n,]{1,200})",
    ),
    # Waiting in store based barrier to initialize process group for rank: 3, key: store_based_barrier_key:1
    #   (world_size=4, worker_count=3, timeout=0:30:00)                                              torch 1.8-2.1
    _row(
        EventKind.RENDEZVOUS,
        "store_based_barrier_key",
        r"key: (?P<key>store_based_barrier_key:\d{1,9}) \(world_size=(?P<expected>\d{1,9}), "
        r"worker_count=(?P<joined>\d{1,9})",
    ),
    # DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.           torch 2.2 on
    _row(
        EventKind.RENDEZVOUS,
        "waiting for clients",
        r"Timed out after (?P<waited_seconds>\d{1,9}) seconds waiting for clients\. "
        r"(?P<joined>\d{1,9})/(?P<expected>\d{1,9}) clients",
    ),
    # The client socket has timed out after 60000ms while trying to connect to (node1.example, 29500).
    _row(
        EventKind.RENDEZVOUS,
        "client socket has timed out",
        r"client socket has timed out after (?P<waited_ms>\d{1,12})ms\s{1,30}while trying to connect to "
        r"\((?P<peer>[^,)]{1,255}, \d{1,5})\)",
    ),
    # [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0',
    #   but store->get('0') got error: Socket Timeout
    _row(
        EventKind.RENDEZVOUS,
        "is setting up NCCL communicator",
        r"\[(?P<waiter>\d{1,7})\] is setting up NCCL communicators? and retr(?:ie|ei)ving ncclUniqueIds? from "
        r"(?:\[(?P<peer>\d{1,7})\]|roots)",
    ),
    # RuntimeError: wait timeout after 300000ms, keys: /default_pg/0//cuda//4242           torch 2.1 on
    _row(
        EventKind.RENDEZVOUS,
        "wait timeout after",
        r"wait timeout after (?P<waited_ms>\d{1,12})ms, keys: (?P<key>\S{1,300})",
    ),
    # torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB …
    _row(EventKind.OUT_OF_MEMORY, "CUDA out of memory", r"(?P<type>CUDA out of memory)"),
    # RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you …
    _row(
        EventKind.OUT_OF_MEMORY,
        "DefaultCPUAllocator",
        r"(?P<type>DefaultCPUAllocator: (?:can't allocate|not enough) memory)",
    ),
    # slurmstepd: error: Detected 1 oom_kill event in StepId=4242.0. Some of the step tasks have been OOM Killed.
    _row(
        EventKind.OUT_OF_MEMORY,
        "oom_kill event",
        r"Detected (?P<count>\d{1,9}) oom_kill events? in StepId=(?P<step>[\d_+]{1,30}\.\w{1,30})",
    ),
    # Out of memory: Killed process 4242 (python3) total-vm:…      Memory cgroup out of memory: Killed process 42 …
    _row(EventKind.OUT_OF_MEMORY, "ut of memory: Killed process", r"ut of memory: Killed process (?P<pid>\d{1,10})"),
    # E1121 09:10:11.123 4242 torch/distributed/elastic/multiprocessing/api.py:988] failed (exitcode: -9) local_rank: 2
    #   (pid: 4245) of binary: /srv/venv/bin/python
    _row(
        EventKind.SIGNAL,
        "failed (exitcode:",
        r"failed \(exitcode: (?P<exit_code>-?\d{1,9})\) local_rank: (?P<local_rank>\d{1,7}) \(pid: (?P<pid>\d{1,10})\)",
    ),
    # W1121 … torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, shutting down workers
    _row(EventKind.SIGNAL, "death signal", r"Received (?P<signal>\w{1,20}) death signal"),
    # srun: error: node7: task 13: Segmentation fault        srun: error: node7: tasks 8-12,14: Killed
    _row(
        EventKind.SIGNAL,
        "srun: error:",
        r"srun: error: (?P<host>[\w.-]{1,255}): tasks? (?P<tasks>[\d,-]{1,2000}): (?P<what>[^\n]{1,200})",
    ),
    # srun: error: Node failure on node7
    _row(EventKind.SIGNAL, "Node failure on", r"Node failure on (?P<host>[\w.-]{1,255})"),
    # Fatal Python error: Segmentation fault
    _row(EventKind.SIGNAL, "Fatal Python error:", r"Fatal Python error: (?P<what>[^\n]{1,200})"),
)

# [PG ID 2 PG GUID 9(dp) Rank 4]        [PG 0 (default_pg) Rank 3]        [PG 1 Rank 0]        the rank is the group's
GROUP = re.compile(
    r"\[PG (?:ID )?(?P<group_id>\d{1,9})(?: PG GUID (?P<group>\d{0,9}))? ?(?:\((?P<description>[^()\]]{0,100})\))? ?"
    r"Rank (?P<group_rank>\d{1,7})\]"
)
GROUP_HINT = "[PG "

# … Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[21], Tensor…
FINGERPRINT_HINT = "CollectiveFingerPrint("
FINGERPRINT = re.compile(
    r"Rank (\d{1,7}) is running (?:inconsistent )?collective: CollectiveFingerPrint\(([^()]{1,2000})"
)
FINGERPRINT_PARTS = {
    "sequence": re.compile(r"SequenceNumber=(\d{1,18}?)(?=\D|$)"),
    "op": re.compile(r"OpType=(\w{1,64})"),
    "shape": re.compile(r"TensorShape=\[([\d, ]{0,500})\]"),
    "dtypes": re.compile(r"TensorDtypes=(\w{1,64})"),
}

_OPS = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "allreduce_sparse": "all_reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor",
    "allgather_coalesced": "all_gather_coalesced",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "recvanysource": "recv",
}


def canonical_op(op_type: str) -> str:
    """Return the flight recorder's spelling of c10d's OpType, e.g. `all_reduce` for `ALLREDUCE`."""
    return _OPS.get(op_type.lower(), op_type.lower())
