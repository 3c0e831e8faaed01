"""Lines of Gloo, NCCL, UCX and others about connections: lost, never made, waited for, or chosen."""

from shared.formats.logs.row import row
from shared.wire.log_events import EventKind

_UCX = (
    r"\[(?P<writer_host>[\w.-]{1,255}):(?P<writer_pid>\d{1,10}) {0,8}(?::\d{1,10}){0,2}\] {1,20}"
    r"(?P<transport>\w{1,40})\.c:\d{1,6} {1,8}(?:UCX {1,4})?(?:Fatal|FATAL|ERROR|Error)"
)
"""[node1:42:0:51] ud_iface.c:780  Fatal        [node1:42:0] select.c:438  UCX  ERROR"""

CONNECTIONS = (
    # [… gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 30000ms for recv operation to complete
    row(
        EventKind.TRANSPORT_ERROR,
        "Timed out waiting",
        r"Timed out waiting (?P<timeout_ms>\d{1,12})ms for (?P<direction>send|recv)",
    ),
    # [… gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.1.2.3]:40123. This is typically caused by …
    row(
        EventKind.TRANSPORT_ERROR,
        "Connection closed by peer [",
        r"(?P<type>Connection closed by peer) (?P<peer>\[[^\]]{1,60}\]:\d{1,5})",
    ),
    # [… gloo/transport/tcp/pair.cc:537] Read error [10.1.2.3]:40123: Connection reset by peer
    row(
        EventKind.TRANSPORT_ERROR,
        " error [",
        r"(?:Read|Write) error (?P<peer>\[[^\]]{1,60}\]:\d{1,5}): (?P<type>[A-Z][\w ]{1,60})",
    ),
    # Application timeout caused pair closure
    row(EventKind.TRANSPORT_ERROR, "Application timeout caused", r"(?P<type>Application timeout caused pair closure)"),
    # NET/IB: Got completion from peer 10.1.2.3<40123> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=… hca mlx5_1
    # NET/IB : Got completion from peer 10.1.2.3<40123> with error 12, opcode 0, len 0, vendor err 129   NCCL 2.3-2.19
    row(
        EventKind.TRANSPORT_ERROR,
        "Got completion from peer",
        r"Got completion from peer (?P<peer>\S{1,80})\s{1,30}with (?:error |status=(?:\w{1,40}\()?)(?P<status>\d{1,6})"
        r"(?:.{0,300}?hca (?P<interface>\w{1,40}))?",
    ),
    # net_ib.cu:788 NCCL WARN NET/IB : Got completion with error 4, opcode 1, len 42, vendor err 81       to NCCL 2.9
    row(
        EventKind.TRANSPORT_ERROR,
        "Got completion with error",
        r"(?P<transport>NET/IB) : Got completion with (?P<type>error (?P<status>\d{1,6}))",
    ),
    # [node1:42:0:51] ib_mlx5_log.c:143  Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 …)    UCX
    row(
        EventKind.TRANSPORT_ERROR,
        "Transport retry count exceeded",
        r"^\[[^\]\s]{1,300}(?: [^\]\s]{1,40})?\] {1,10}(?P<transport>ib_mlx5)_log\.c:\d{1,6} {1,4}"
        r"(?:FATAL: Error on (?P<interface>\w{1,40}):\d{1,3} QP \S{1,20} wqe\[\d{1,9}\]: )?"
        r"(?P<type>Transport retry count exceeded)",
    ),
    # [node1:42:0:51]       ud_iface.c:780  Fatal: transport error: Endpoint timeout                         UCX to 1.10
    # [node1:42:0]     ucp_worker.c:373  UCX  ERROR Error Endpoint timeout was not handled for ep 0x55d0
    row(
        EventKind.TRANSPORT_ERROR,
        "Endpoint timeout",
        _UCX + r"(?:: transport error: | Error )(?P<type>Endpoint timeout)",
    ),
    # [node1:42:0:51]       ud_ep.c:248  Fatal: UD endpoint 0x55d0 to <no debug data>: unhandled timeout error
    row(
        EventKind.TRANSPORT_ERROR,
        "unhandled timeout error",
        _UCX + r":? UD endpoint [^\n]{1,200}: (?P<type>unhandled timeout error)",
    ),
    # [node1:42:0]  select.c:438  UCX  ERROR no active messages transport to <no debug data>: tcp/eth0 - Destination …
    row(EventKind.TRANSPORT_ERROR, " transport to ", _UCX + r" (?P<type>no [a-z ]{2,60} transport) to "),
    # [node1:42] pml_ucx.c:447  Error: Failed to resolve UCX endpoint for rank 3                             Open MPI
    row(
        EventKind.TRANSPORT_ERROR,
        "UCX endpoint for rank",
        _UCX + r": (?P<type>Failed to resolve UCX endpoint for rank \d{1,7})",
    ),
    # [node1:42] UCXPY  DEBUG Error callback for endpoint 0x55d0 called with status -6: Destination is unreachable
    row(
        EventKind.TRANSPORT_ERROR,
        "Error callback for endpoint",
        r"\[(?P<writer_host>[\w.-]{1,255}):(?P<writer_pid>\d{1,10})\] (?P<transport>UCXPY) {1,4}\w{1,9} Error callback "
        r"for endpoint \S{1,40} called with status -\d{1,4}: (?P<type>Destination is unreachable|Endpoint timeout)",
    ),
    # misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable
    # ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state …
    row(
        EventKind.TRANSPORT_ERROR,
        "Call to ibv_modify_qp",
        r"Call to (?P<transport>ibv_modify_qp) failed with (?:error|\d{1,5}) (?P<type>[A-Z][\w ]{1,60})"
        r"(?:, on dev (?P<interface>\w{1,40}))?",
    ),
    # Failed to modify QP to RTR: Connection timed out                                   programs that use verbs
    row(
        EventKind.TRANSPORT_ERROR,
        "Failed to modify QP",
        r"(?P<transport>Failed to modify QP)(?: 0x[0-9a-f]{1,8})? to RTR: (?P<type>[A-Z][\w ]{1,60})",
    ),
    # node1:42:51 [0] NCCL INFO Call to connect returned Connection timed out, retrying
    # Not: … returned Connection refused, retrying        as while the others start
    row(
        EventKind.TRANSPORT_ERROR,
        ", retrying",
        r"(?P<transport>NCCL) INFO Call to connect returned (?P<type>Connection timed out), retrying",
    ),
    # proxy.cc:1519 NCCL WARN [Proxy Service 3] Failed to execute operation Connect from rank 3, retcode 2
    # Not: … retcode 6        as where the peer has gone
    row(
        EventKind.TRANSPORT_ERROR,
        "Failed to execute operation Connect",
        r"(?P<transport>Proxy Service) \d{1,7}\] (?P<type>Failed to execute operation Connect) from rank \d{1,7}, "
        r"retcode 2\b",
    ),
    # [transport_manager.cc:954] [4250][InitChannelStage][RunFailed]Transport init error! createLink para:rank[3]-…,
    #   remoteRank[5]-remoteUserrank[5]-remoteIpAddr[10.1.2.3/7], machineType[0], …                              HCCL
    row(
        EventKind.TRANSPORT_ERROR,
        "Transport init error! createLink para:",
        r"(?P<type>Transport init error)! createLink para:[^\n]{1,300}?remoteIpAddr\[(?P<peer>[\w.:]{1,60})",
    ),
    # socketProgress: Connection closed by remote peer node7.example<40123>      NCCL 2.16 on; before `Net : Connec…`
    row(
        EventKind.TRANSPORT_ERROR,
        "Connection closed by remote peer",
        r"(?P<type>Connection closed by remote peer)(?: (?P<peer>\S{1,200}))?",
    ),
    # node1:42:51 [0] NCCL INFO [Service thread] Connection closed by localRank 2
    row(
        EventKind.TRANSPORT_ERROR,
        "Connection closed by localRank",
        r"(?P<type>Connection closed by localRank) (?P<local_rank>\d{1,7})",
    ),
    # socketPollConnect: connect to 10.1.2.3<40123> returned Connection timed out, exceeded error retry count after 35 …
    row(
        EventKind.TRANSPORT_ERROR,
        "connect to ",
        r"connect to (?P<peer>\S{1,200}) returned (?P<type>[A-Z][\w ]{1,60}),\s{1,30}exceeded error retry count",
    ),
    # node1:42:51 [0] NCCL WARN Net : Call to recv from 10.1.2.3<40123> failed : Connection reset by peer
    # node1:42:51 [0] NCCL WARN Call to connect to 10.1.2.3<40123> failed : Connection refused
    row(
        EventKind.TRANSPORT_ERROR,
        "Call to ",
        r"Call to (?:recv|send|connect)(?: (?:from|to) (?P<peer>[^\s<]{1,100}<\d{1,5}>))? (?:failed|returned) ?: "
        r"(?P<type>[A-Z][\w ]{1,60})",
    ),
    # socketStartConnect: Connect to 10.1.2.3<40123> failed : No route to host                        NCCL 2.16 on
    # socketPollConnect: Connect to 10.1.2.3<40123> returned 113(No route to host) errno 115 - …
    row(
        EventKind.TRANSPORT_ERROR,
        "Connect to ",
        r"Connect to (?P<peer>[^\s<]{1,100}<\d{1,5}>) (?:failed : |returned \d{1,5}\()(?P<type>[A-Z][\w ]{1,60})",
    ),
    # NCCL WARN NET/OFI Request 0x7f00 completed with error. RC: 5. Error: 12 (Input/output error). Completed length: 0
    # NCCL WARN NET/OFI Request completed with error: Connection timed out
    row(
        EventKind.TRANSPORT_ERROR,
        "NET/OFI ",
        r"(?P<transport>NET/OFI) Request (?:0x[0-9a-f]{1,16} )?completed with error[.:] {0,2}(?P<type>[^\n]{1,200})",
    ),
    # libfabric:4242:1763716211::cxi:ep_data:cxip_report_send_err():85<warn> node1: … Request error: 0x1c (err: 5, …)
    row(
        EventKind.TRANSPORT_ERROR,
        "libfabric:",
        r"(?P<transport>libfabric):\d{1,10}:\d{1,12}:[^:\s]{0,60}:\w{1,30}:\w{1,30}:[^\n]{0,300}?"
        r"(?P<type>\(?err(?:or)?: (?!0\b)[^\n]{1,200})",
    ),
    # node1:42:51 [0] NCCL WARN NET/IB : mlx5_0:1 Got async error event: port error       older: async event
    row(
        EventKind.TRANSPORT_ERROR,
        "Got async ",
        r"(?P<transport>NET/IB) : (?:(?P<interface>\w{1,40}):\d{1,3} )?Got async (?:error )?event ?: "
        r"(?P<type>port error|local catastrophic error|[a-z ]{0,40}fatal[a-z ]{0,40})",
    ),
    # node1:42:51 [0] … NCCL WARN NET/IB: ncclIbResiliencyHandleDeviceFailure: Device 0 marked as failed. …    NCCL 2.30
    row(
        EventKind.TRANSPORT_ERROR,
        " marked as failed",
        r"(?P<transport>NET/IB) ?: \w{1,80}: (?P<type>Device (?P<interface>\d{1,3}) marked as failed)",
    ),
    # ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
    row(EventKind.TRANSPORT_ERROR, "ncclRemoteError:", r"(?P<type>ncclRemoteError): A call failed possibly"),
    # … watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL
    #   version 2.28.9
    row(
        EventKind.TRANSPORT_ERROR,
        "remote process exited or there was",
        r"(?P<type>remote process exited or there was a network error)"
        r"(?:, NCCL version (?P<nccl>\d{1,3}(?:\.\d{1,3}){2}))?",
    ),
    # Collective WorkNCCL(SeqNum=89, OpType=ALLREDUCE, …) raised the following async exception: NCCL error: unhandled …
    row(
        EventKind.TRANSPORT_ERROR,
        "raised the following async exception",
        r"Work[A-Z0-9]{1,16}\(SeqNum=(?P<sequence>\d{1,18}), OpType=(?P<op>\w{1,64})[^)]{0,200}(?:\)[^)]{1,200})?\)"
        r" raised the following async exception: (?P<type>[^\n,]{1,200})",
    ),
    # NET/Socket : Using [0]eth0:10.1.2.3<0> [1]eth1:10.9.2.3<0>
    # NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.1.2.3<0>
    row(
        EventKind.INTERFACE,
        " : Using [",
        r"NET/(?P<transport>Socket|IB) : Using (?P<devices>\[\d{1,3}\][^;\n]{1,2000})"
        r"(?:;\s{1,30}OOB (?P<interface>[\w.-]{1,40}):(?P<address>[^<\s]{1,60})<\d{1,5}>)?",
    ),
    # node1:42:51 [0] NCCL WARN NET/IB : Unable to open device mlx5_1        NCCL goes on without it, its peers not
    row(
        EventKind.INTERFACE,
        "Unable to open device",
        r"NET/(?P<transport>IB) ?: Unable to open device (?P<unopened>[\w.-]{1,40})",
    ),
    # Bootstrap : Using eth0:10.1.2.3<0>                                             `Bootstrap: Using` from NCCL 2.24
    row(
        EventKind.INTERFACE,
        ": Using ",
        r"(?P<transport>Bootstrap) ?: Using (?P<interface>[\w.-]{1,40}):(?P<address>[^<\s]{1,60})<\d{1,5}>",
    ),
    # NCCL version 2.27.5+cuda12.9        NCCL version 2.30.7 compiled with CUDA 12.8
    row(
        EventKind.VERSION, "NCCL version ", r"\bNCCL version (?P<nccl>\d{1,3}(?:\.\d{1,3}){2})(?:\+cuda| compiled with)"
    ),
)
