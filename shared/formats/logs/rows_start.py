"""Lines about starts: who has come, what nobody could reach, and what a library needed and did not get."""

from shared.formats.logs.row import row
from shared.wire.log_events import EventKind

STARTS = (
    # Waiting in store based barrier to initialize process group for rank: 3, key: store_based_barrier_key:1
    #   (world_size=4, worker_count=3, timeout=0:30:00)                                              torch 1.8-2.1
    row(
        EventKind.RENDEZVOUS,
        "store_based_barrier_key",
        r"(?:rank: (?P<waiter>\d{1,7}), (?:for )?)?key: (?P<key>store_based_barrier_key:\d{1,9}) "
        r"\(world_size=(?P<expected>\d{1,9}), worker_count=(?P<joined>\d{1,9})",
    ),
    # DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.           torch 2.2 on
    # DistStoreError: Timed out after 601 seconds waiting for workers. 3/4 workers joined.           its first builds
    row(
        EventKind.RENDEZVOUS,
        "Timed out after ",
        r"Timed out after (?P<waited_seconds>\d{1,9}) seconds\s{1,30}waiting for\s{1,30}(?:clients|workers)\.\s{1,30}"
        r"(?P<joined>\d{1,9})/(?P<expected>\d{1,9}) (?:clients|workers)",
    ),
    # torch.distributed.elastic.rendezvous.api.RendezvousClosedError          "message": "RendezvousTimeoutError: ",
    row(EventKind.RENDEZVOUS, "RendezvousTimeoutError", r"Rendezvous(?P<unmet>Timeout)Error"),
    row(EventKind.RENDEZVOUS, "RendezvousClosedError", r"Rendezvous(?P<unmet>Closed)Error"),
    # torchft::lighthouse: … - INFO start: No quorum, only have 1 participants, need 2
    row(
        EventKind.RENDEZVOUS,
        "No quorum, only have",
        r"(?P<unmet>No quorum), only have (?P<replicas>\d{1,7}) participants, need (?P<quorum>\d{1,7})",
    ),
    # … The node 'node7_4242_0' has failed to send a keep-alive heartbeat to the rendezvous '42' due to an error of type
    #   RendezvousConnectionError.
    row(
        EventKind.RENDEZVOUS,
        "a keep-alive heartbeat to",
        r"The node '(?P<agent>[\w.-]{1,255}?)(?:_\d{1,10}_\d{1,7})?' has (?P<unmet>failed to send a keep-alive)",
    ),
    # The client socket has timed out after 60000ms while trying to connect to (node1.example, 29500).
    # The client socket has timed out after 1800s while trying to connect to (127.0.0.1, 29500).          torch to 1.12
    row(
        EventKind.RENDEZVOUS,
        "client socket has timed out",
        r"client socket has timed out after (?:(?P<waited_ms>\d{1,12})m|\d{1,9})s\s{1,30}while trying to connect to "
        r"\((?P<peer>[^,)]{1,255}, \d{1,5})\)",
    ),
    # The IPv6 network addresses of (node1.example, 29500) cannot be retrieved (gai error: -2 - Name or service not …
    row(
        EventKind.RENDEZVOUS,
        "cannot be retrieved (gai error",
        r"network addresses of \((?P<peer>[^,)]{1,255}, \d{1,5})\) cannot be retrieved \(gai error: "
        r"(?P<unresolved>-?\d)",
    ),
    # [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0',
    #   but store->get('0') got error: Socket Timeout        key '1:2' of two ranks, where `[0]` is the first of these
    row(
        EventKind.RENDEZVOUS,
        "is setting up NCCL communicator",
        r"\[(?P<waiter>\d{1,7})\] is setting up NCCL communicators? and retr(?:ie|ei)ving ncclUniqueIds? from "
        r"(?:\[(?P<peer>\d{1,7})\]|roots)(?: via c10d key-value store by key '(?P<pair>\d{1,7}):\d{1,7}')?",
    ),
    # RuntimeError: wait timeout after 300000ms, keys: /default_pg/0//cuda//4242           torch 2.1 on
    row(
        EventKind.RENDEZVOUS,
        "wait timeout after",
        r"wait timeout after (?P<waited_ms>\d{1,12})ms(?:, keys: (?P<key>\S{1,300}))?",
    ),
    # [c10d] sendBytes failed on SocketImpl(fd=7, addr=[::1]:39732, remote=[::1]:29500): Broken pipe     torch 2.6 on
    row(
        EventKind.RENDEZVOUS,
        "failed on SocketImpl(",
        r"(?:sendBytes|recv\w{1,30}) failed on SocketImpl\([^()]{0,200}remote=(?P<peer>[^,()]{1,100})\): "
        r"(?P<type>[^\n]{1,200})",
    ),
    # The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).            torch 1.11 on
    # … failed to listen on any local network address. port: 29500, useIpv6: 0, code: -98, name: EADDRINUSE, message: …
    # OSError: [Errno 98] Address already in use            misc/socket.cc:410 NCCL WARN Call to bind failed : Address …
    row(
        EventKind.RENDEZVOUS,
        "ddress already in use",
        r"(?:(?:port: | to \S{0,80}[\]\w]:)(?P<port>\d{1,5})[^\n]{0,100})?(?P<taken>[Aa]ddress already in use)",
    ),
    # … [Listen] socket type[1], listen on ip[10.1.2.3] and specific port[16666] fail. Please check the port …     HCCL
    row(
        EventKind.RENDEZVOUS,
        "specific port[",
        r"listen on ip\[[^\]\n]{1,60}\] and specific port\[(?P<port>\d{1,5})\] (?P<taken>fail)",
    ),
    # RuntimeError: Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:144] no error
    row(EventKind.RENDEZVOUS, "connectFullMesh failed", r"Gloo (?P<unstarted>connectFullMesh failed)"),
    # init.cc:497 NCCL WARN Duplicate GPU detected : rank 3 and rank 0 both on CUDA device 1000           NCCL 2.5 on
    row(
        EventKind.RENDEZVOUS,
        "Duplicate GPU detected",
        r"(?P<unstarted>Duplicate GPU) detected ?: rank \d{1,7} and rank \d{1,7} both on",
    ),
    # … NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-xyz (size 192814336), error: No such file
    row(
        EventKind.RENDEZVOUS,
        "shared memory segment",
        r"NCCL WARN Error while (?:creating|attaching to) (?P<unstarted>shared memory segment)",
    ),
    # misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory
    row(
        EventKind.RENDEZVOUS,
        "Call to ibv_reg_mr",
        r"Call to (?P<unstarted>ibv_reg_mr)\w{0,20} failed with error (?:Cannot allocate|Resource temporarily)",
    ),
    # ValueError: host not found: Name or service not known                                              torch to 1.4
    row(
        EventKind.RENDEZVOUS,
        "host not found: ",
        r"(?P<unstarted>host not found): (?:Name or service|Temporary failure)",
    ),
    # include/socket.h:344 WARN Socket creation failed : Address family not supported by protocol
    row(EventKind.RENDEZVOUS, "Socket creation failed", r"WARN (?P<unstarted>Socket creation failed) ?: "),
    # bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 3 of 8 ranks has already checked in
    # bootstrap.cc:123 NCCL WARN Bootstrap Root : mismatch in rank count from procs 8 : 4
    row(
        EventKind.RENDEZVOUS,
        "Bootstrap Root",
        r"Bootstrap Root ?: .{0,60}(?P<unstarted>already checked in|mismatch in rank count)",
    ),
    # bootstrap.cc:48 NCCL WARN Bootstrap : no socket interface found
    row(EventKind.RENDEZVOUS, "no socket interface found", r"Bootstrap ?: (?P<unstarted>no socket interface) found"),
    # ssh: connect to host node7 port 22: Connection refused                       of mpirun, horovodrun, pdsh
    # ssh: Could not resolve hostname node7: Name or service not known
    row(
        EventKind.RENDEZVOUS,
        "ssh: ",
        r"(?P<caller>ssh): (?:connect to host|Could not resolve hostname) (?P<peer>[\w.:-]{1,255}?)"
        r"(?: port \d{1,5})?: [A-Z]",
    ),
    # A process or daemon was unable to complete a TCP connection                                              Open MPI
    # to another process:
    #   Local host:    node1
    #   Remote host:   node7
    row(
        EventKind.RENDEZVOUS,
        "to another process:",
        r"to another process:\n\s{0,8}Local host: {1,20}(?P<caller>\S{1,255})"
        r"\n\s{0,8}Remote host: {1,20}(?P<peer>\S{1,255})",
    ),
    # ValueError: TP rank 3 could finish the model loading, but there are other ranks that didn't finish loading. SGLang
    row(
        EventKind.RENDEZVOUS,
        "could finish the model loading",
        r"but there are other ranks that (?P<unmet>didn't finish loading)",
    ),
    # /src/nvshmem/src/host/init/init.cu:1047: non-zero status: 7 nvshmem setup connections failed
    # /src/nvshmem/src/modules/transport/ibgda/ibgda.cpp:1889: NULL value cannot allocate mlx5dv_devx_uar
    # /src/nvshmem/src/host/init/init.cu:nvshmemi_check_state_and_init:1117: nvshmem initialization failed, exiting
    row(
        EventKind.RENDEZVOUS,
        "nvshmem",
        r"(?P<unstarted>nvshmem)\w{0,20}(?:/src)?/(?:host|modules)/[\w./-]{1,120}\.(?:cpp|cu|h):(?:\w{1,60}:)?\d{1,6}: "
        r"(?:non-zero status: \d|NULL value |nvshmem initialization failed|Unable to initialize any transports)",
    ),
    # 2026:11:21-09:10:11:( 4242) |CCL_ERROR| atl_ofi.cpp:243 init: can't find suitable provider                 oneCCL
    # RuntimeError: oneCCL: exec.cpp:134 start_workers: EXCEPTION: failed to start worker # 0
    row(
        EventKind.RENDEZVOUS,
        "|CCL_ERROR| ",
        r"\|CCL_ERROR\| \S{1,80}:\d{1,6} init: (?P<unstarted>can't find suitable provider)",
    ),
    row(
        EventKind.RENDEZVOUS,
        "oneCCL: ",
        r"oneCCL: \S{1,80}:\d{1,6} \w{1,80}: EXCEPTION: (?P<unstarted>init transport failed|failed to start worker)",
    ),
    # RuntimeError: … HCCL function error: hcclCommInitRootInfoConfig(numRanks, &rootInfo, rank, …), error code is 15
    # [op_base.cc:974][4242][Init][CommRootInfoConfig]errNo[0x0000000005000002]HcclCommInitRootInfo failed.
    row(
        EventKind.RENDEZVOUS,
        "cclCommInitRootInfo",
        r"(?:HCCL function error: [hH]|[hH](?=cclCommInitRootInfo\w{0,10} fail))(?P<unstarted>cclCommInitRootInfo)",
    ),
    # EJ0001: 2026-11-21-09:10:11.123.456 Failed to initialize the HCCP process. Reason: Maybe the last training …
    row(EventKind.RENDEZVOUS, "the HCCP process", r"Failed to initialize the (?P<unstarted>HCCP process)"),
    # … remote target unknown_target_for_coordination_leader while calling /tensorflow.CoordinationService/RegisterTask:
    row(
        EventKind.RENDEZVOUS,
        "CoordinationService/RegisterTask",
        r"while calling /tensorflow\.CoordinationService/(?P<unstarted>RegisterTask)",
    ),
    # DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0. This usually happens because …
    row(
        EventKind.RENDEZVOUS,
        "Wait_for_all_tasks_to_register",
        r"Barrier timed out\. (?:Barrier_id|Id): \S{0,20}(?P<unmet>Wait_for_all_tasks_to_register)",
    ),
    # XlaRuntimeError: UNKNOWN: TPU initialization failed: open(/dev/accel3): Operation not permitted: …
    row(EventKind.RENDEZVOUS, "TPU initialization failed", r"(?P<unstarted>TPU initialization failed): "),
)
