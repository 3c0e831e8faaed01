"""Lines of PyTorch and NCCL about operations that time out, differ, or lack a rank."""

from shared.formats.logs.row import row
from shared.wire.log_events import EventKind

_NCCL_COUNTS = (
    r"(?P<sequence>\d{1,18}),\s{1,30}last enqueued NCCL work: (?P<enqueued>-?\d{1,18}),"
    r"\s{1,30}last completed NCCL work: (?P<completed>-?\d{1,18})"
)
"""torch 2.3 to 2.5."""

OPERATIONS = (
    # [rank3]:[E1121 09:10:11.123456789 ProcessGroupNCCL.cpp:655] [Rank 3] Watchdog caught collective operation
    #   timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for
    #   600041 milliseconds before timing out.                   torch 2.1 on; before: no Numel, before 1.11: no SeqNum
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "Watchdog caught collective operation timeout",
        r"(?:\[Rank (?P<group_rank>\d{1,7})\] )?Watchdog caught collective operation timeout:\s{0,30}"
        r"Work(?P<backend>[A-Z0-9]{1,16})\("
        r"(?:SeqNum=(?P<sequence>\d{1,18}), )?OpType=(?P<op>\w{1,64}), (?:NumelIn=(?P<numel_in>\d{1,18}), {1,2}"
        r"NumelOut=(?P<numel_out>\d{1,18}), {1,2})?Timeout\(ms\)=(?P<timeout_ms>\d{1,18})\)"
        r"\s{1,30}ran for (?P<elapsed_ms>\d{1,18})",
    ),
    # [PG 0 (default_pg) Rank 1] Timeout at NCCL work: 31, last enqueued NCCL work: 40, last completed NCCL work: 30.
    row(EventKind.WATCHDOG_TIMEOUT, "Timeout at NCCL work", r"Timeout at NCCL work: " + _NCCL_COUNTS),
    # [PG 1 Rank 0] Exception (either an error or timeout) detected by watchdog at work: 31, last enqueued NCCL work: …
    row(EventKind.WATCHDOG_TIMEOUT, "detected by watchdog at work:", r"detected by watchdog at work: " + _NCCL_COUNTS),
    # [PG ID 0 PG GUID 0(default_pg) Rank 7]  failure detected by watchdog at work sequence id: 88 PG status: last
    #   enqueued work: 90, last started work: 88 (ALLREDUCE), last completed work: 87     torch 2.6 on, started 2.13 on
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "last enqueued work:",
        r"(?:at work sequence id: (?P<sequence>\d{1,18}) {1,4})?(?:PG status: )?"
        r"last enqueued work: (?P<enqueued>-?\d{1,18})"
        r"(?:,\s{1,30}last started work: (?P<started>-?\d{1,18})(?: \((?P<op>\w{1,64})\))?)?"
        r"(?:,\s{1,30}last completed work: (?P<completed>-?\d{1,18}))?",
    ),
    # [rank1]:[E… ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got
    #   stuck for 480 seconds without making progress in monitoring enqueued collectives.                torch 2.3 on
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "watchdog got stuck for",
        r"watchdog got stuck for (?P<stuck_seconds>\d{1,9}) seconds",
    ),
    # [PG 0 Rank 2] Heartbeat monitor timed out! Process will be terminated after dumping debug info.
    #   workMetaList_.size()=2                                                                          torch 2.3, 2.4
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "Heartbeat monitor timed out",
        r"Heartbeat monitor timed out!(?:[^\n]{0,100}workMetaList_\.size\(\)=(?P<unfinished_works>\d{1,9}))?",
    ),
    # Could not acquire GIL within 300 ms on exit, possible GIL induced hang                                torch 2.3 on
    row(EventKind.GIL, "Could not acquire GIL", r"Could not acquire GIL within (?P<waited_ms>\d{1,9}) ms"),
    # [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump signal due to a collective timeout from  rank 5 and we will
    #   try our best to dump the debug info. Last enqueued NCCL work: 12, last completed NCCL work: 12.   torch 2.5 on
    row(
        EventKind.DUMP_SIGNAL,
        "Received a dump signal",
        r"Received a dump signal due to a collective timeout from {1,4}(?P<source>this local rank|rank \d{1,7})"
        r"(?:.{0,200}Last enqueued NCCL work: (?P<enqueued>-?\d{1,18}), last completed NCCL work: "
        r"(?P<completed>-?\d{1,18}))?",
    ),
    # Observed flight recorder dump signal from another rank via TCPStore.      First PG on this rank to signal dumping.
    row(EventKind.DUMP_SIGNAL, "dump signal from another rank", r"Observed flight recorder dump signal"),
    row(EventKind.DUMP_SIGNAL, "to signal dumping", r"First PG on this rank to signal dumping"),
    # First watchdog to set the dump signal.                                                                  torch 2.4
    # ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1, only active collectives: 0
    # Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.  torch 2.5 on
    row(EventKind.DUMP_SIGNAL, "to set the dump signal", r"First watchdog to set the dump signal"),
    row(EventKind.DUMP_SIGNAL, "preparing to dump debug info", r"ProcessGroupNCCL preparing to dump debug info"),
    row(
        EventKind.DUMP_SIGNAL,
        "after attempting to dump debug info",
        r"Terminating the process after attempting to dump debug info, due to (?P<why>[^.\n]{1,200})",
    ),
    # - [1] finished collective #6, but didn't join collective #7 (count from 1)          TORCH_NCCL_DESYNC_DEBUG=1
    # - [0,2,3] joined but didn't finish collective #7 (count from 1)
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "collective #",
        r"\[(?P<ranks>[\d, .]{1,4000})\] (?:joined but didn't finish collective #(?P<unfinished>\d{1,18})"
        r"|finished collective #\d{1,18}, but didn't join collective #(?P<not_joined>\d{1,18}))",
    ),
    # - [0] Timeout at collective: ALLREDUCE, #7                                         TORCH_NCCL_DESYNC_DEBUG=1
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "Timeout at collective:",
        r"\[(?P<waiter>\d{1,7})\] Timeout at collective: (?P<op>\w{1,64}), #(?P<unfinished>\d{1,18})",
    ),
    # - To our best knowledge, ranks [1,2] are the lagging ranks that caused this timeout. They never joined any …
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "are the lagging ranks",
        r"ranks \[(?P<never_joined>[\d, .]{1,4000})\] are the lagging ranks that caused this timeout",
    ),
    # missing ranks: {1, 5}, as torchfrtrace and torch's debug server print
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "missing ranks: {",
        r"missing ranks: \{(?P<never_joined>\d[\d, ]{0,4000})\}",
    ),
    # error msg: Culprit rank 3; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[8]]' does not match …
    row(
        EventKind.COLLECTIVE_MISMATCH,
        "; Error type: ",
        r"Culprit rank (?P<differs>\d{1,7}); Error type: "
        r"(?P<error>COLLECTIVE_TYPE_MISMATCH|SIZE_OR_SYNTAX_MISMATCH|COLLECTIVE_DTYPE_MISMATCH)",
    ),
    # HorovodAllreduce_dense_kernel_0 [missing ranks: 1, 3]        Horovod to 0.19
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "[missing ranks: ",
        r"\[missing ranks: (?P<never_joined>\d[\d, ]{0,4000})\]",
    ),
    # DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: …. Timed out task names:        JAX, which lists below it
    # /job:jax_worker/replica:0/task:3        who did not come
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "/replica:",
        r"^/job:\w{1,40}/replica:\d{1,7}/task:(?P<never_joined>\d{1,7})$",
    ),
    # DDP expects same model across all ranks, but Rank 3 has 2247 params, while rank 0 has inconsistent 0 params.
    row(
        EventKind.COLLECTIVE_MISMATCH,
        "DDP expects same model",
        r"but Rank (?P<built_by>\d{1,7}) has (?P<params>\d{1,12}) params, while rank (?P<unlike>\d{1,7}) has "
        r"inconsistent (?P<unlike_params>\d{1,12}) params",
    ),
    # EI0006: 2026-11-21-09:10:11.123.456 Getting socket times out. Reason: Remote Rank did not send the data in time.
    # EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the
    #   Notify record from remote rank: [24]. base information: […], tag[AllReduce_group_name_7Comm_device], …      HCCL
    row(
        EventKind.WATCHDOG_TIMEOUT,
        " times out. Reason: ",
        r"(?P<hccl>Getting socket|Notify register) times out\. Reason: "
        r"(?:.{0,120}remote rank:? \[(?P<awaited>\d{1,10})\])?",
    ),
    # DeepEP dispatch NVL receiver timeout, channel: 9, RDMA: 1, nvl: 3, src RDMA: 0, src nvl: 5, start: 0, end: 0
    # RuntimeError: DeepEP error: timeout (dispatch CPU)
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "DeepEP ",
        r"DeepEP (?P<deepep>(?:dispatch|combine) [\w ]{1,40} timeout|error: (?:CPU recv )?timeout)",
    ),
    # F1121 09:10:11.123456 4242 rendezvous.cc:127] Termination timeout for `all gather; run_id=7` of 40 seconds
    #   exceeded. Exiting to ensure a consistent program state. Expected 8 threads to join the rendezvous, but only 7 of
    #   them arrived on time.                                                                                        XLA
    row(
        EventKind.WATCHDOG_TIMEOUT,
        "Termination timeout ",
        r"Termination timeout (?:for `[^`\n]{1,600}` )?of (?P<xla_seconds>\d{1,9}) seconds\s{1,4}exceeded"
        r"(?:.{0,100}Expected (?P<threads>\d{1,9}) threads to\s{1,4}join the rendezvous, but "
        r"(?:only (?P<came>\d{1,9})|not all) of them)?",
    ),
    # [Rank 2] To avoid data inconsistency, we are taking the entire process down.
    row(EventKind.SIGNAL, "taking the entire process down", r"(?P<what>we are taking the entire process down)"),
    # worker.cc:12 NCCL WARN Mismatched collective detected, please check your collective calls at and around rank 3.
    row(
        EventKind.COLLECTIVE_MISMATCH,
        "Mismatched collective detected",
        r"Mismatched collective detected.{0,80}around rank (?P<near>\d{1,7})",
    ),
    # include/socket.h:403 NCCL WARN Your program may be hanging, this may be caused by a collective mismatch around
    #   rank 2. Please check your collective calls at and around this rank.                             NCCL 2.7
    row(
        EventKind.COLLECTIVE_MISMATCH,
        "a collective mismatch around rank",
        r"this (?P<guessed>may) be caused by a collective mismatch around rank (?P<near>\d{1,7})",
    ),
    # NET/IB : req 0/1 tag 1f peer 10.1.2.3<40123> collective mismatch error, local size 32 remote size 64  NCCL 2.12 on
    # NET/IB : collective mismatch error local size 32 remote 64 addr 7f rkey 1 seq 1f/1f                    before
    row(
        EventKind.COLLECTIVE_MISMATCH,
        "collective mismatch error",
        r"NET/IB : (?:req \d{1,9}/\d{1,9} tag \w{1,9} peer (?P<peer>\S{1,80}) )?collective mismatch error,? "
        r"local size (?P<local_bytes>\d{1,18}) remote (?:size )?(?P<remote_bytes>\d{1,18})",
    ),
    # [enforce fail at …/pair.cc:456] op.preamble.length <= op.nbytes. 24 vs 16. Received data size doesn't match
    #   expected size. Is there a distributed collective mismatch in your code?                         Gloo, torch 2.x
    row(
        EventKind.COLLECTIVE_MISMATCH,
        "Received data size doesn't match expected size",
        r"(?:(?P<received_bytes>\d{1,18}) vs (?P<expected_bytes>\d{1,18})\. )?Received data size doesn't match",
    ),
    # RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 30000 ms           with wait_all_ranks=True
    # RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 30000 ms                 else: only the first
    row(
        EventKind.BARRIER_FAILED,
        "failed to pass monitoredBarrier",
        r"(?:\[Rank (?P<speaker>\d{1,7})\]: )?Rank(?P<all>s)? (?P<ranks>\d{1,7}(?:, \d{1,7}){0,5000}) failed to pass "
        r"monitoredBarrier(?: in (?P<timeout_ms>\d{1,12}) ms)?",
    ),
    # Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.
    row(
        EventKind.BARRIER_FAILED,
        "successfully reached monitoredBarrier",
        r"Rank (?P<waiter>\d{1,7}) successfully reached monitoredBarrier, but received errors while waiting"
        r"(?: for send/recv from rank (?P<peer>\d{1,7}))?",
    ),
)
