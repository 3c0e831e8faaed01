"""Good input of every kind: what parsers understand, to be damaged. Hosts, jobs and addresses are made up."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from agent.proc.memory.torch_layouts import read_layouts
from shared.missing import Missing, Reason
from shared.wire.snapshot import NodeSnapshot, RankList
from shared.wire.survey_write import survey_of
from tests.build.agents.fake_agents import case_ranks
from tests.build.jobs.checked_jobs import rank
from tests.build.processes.recorder_image import Operation, RecorderImage
from tests.unit.agent.proc.memory.test_symbols import elf_with_tables, symbol
from tests.unit.agent.tools.test_core_file import STATUS, made_up

_DATA = Path(__file__).parents[2] / "data"

_RECORDED = ("cases/missing_rank2/_dump_0", "cases/rank0_wrong_op/_dump_0", "gloo/wrong_op/trace_node-a_0")

DUMPS = tuple((_DATA / path).read_bytes() for path in _RECORDED)

TRACES: tuple[dict[str, Any], ...] = (
    {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
        "pg_status": {
            "0": {"last_enqueued_collective": 4, "last_started_collective": 4, "last_completed_collective": 3}
        },
        "entries": [
            {
                "frames": [{"name": "step", "filename": "/srv/train.py", "line": 32}],
                "record_id": number,
                "pg_id": 0,
                "process_group": ["0", "default_pg"],
                "collective_seq_id": number + 1,
                "p2p_seq_id": 0,
                "op_id": number + 1,
                "profiling_name": "nccl:all_reduce",
                "time_created_ns": 1_700_000_000_000_000_000 + number,
                "input_sizes": [[1024, 8]],
                "input_dtypes": ["Float"],
                "output_sizes": [[1024, 8]],
                "output_dtypes": ["Float"],
                "state": "completed" if number < 3 else "scheduled",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None,
                "retired": number < 3,
                "timeout_ms": 600_000,
                "is_p2p": False,
            }
            for number in range(4)
        ],
    },
)

GDB = b"""Thread 2 (LWP 4786 "pt_nccl"):
#0  0x00007f66449af7b in ?? () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007f66449af7c in c10d::TCPStore::wait(std::vector<int> const&) (this=...) at TCPStore.cpp:512

Thread 1 (Thread 0x7f31c0a1 (LWP 4784) "python"):
#0  __GI___libc_read (nbytes=..., buf=..., fd=...) at ../sysdeps/read.c:26
"""

GROUPED = b"""**Rank 0 (in the loader):**
_recv (multiprocessing/connection.py:398)
Ranks 1-2 & 5: barrier (torch/distributed/distributed_c10d.py:5030)
"""

STRACE = b"""4787  10:14:50.865293 clock_nanosleep(CLOCK_MONOTONIC, 0,  <unfinished ...>
[pid  4788] 10:14:50.865343 futex(0x7fe0, FUTEX_WAIT <unfinished ...>
4788  10:14:51.000000 <... futex resumed>) = 0 <0.13>
"""

_FILE = struct.pack("<QQQQQ", 1, 4096, 0x400000, 0x401000, 0) + b"/usr/bin/python3\0"
CORE = made_up((1, STATUS), (3, bytes(136)), (6, struct.pack("<QQ", 3, 0x400040)), (0x46494C45, _FILE))

PYSPY: list[dict[str, Any]] = [
    {
        "pid": 4242,
        "thread_id": 140_000,
        "thread_name": "MainThread",
        "os_thread_id": 4242,
        "active": False,
        "owns_gil": True,
        "frames": [
            {
                "name": "all_reduce",
                "filename": "torch/distributed.py",
                "module": None,
                "short_filename": "d.py",
                "line": 9,
            },
            {"name": "poll", "filename": "", "module": "/lib/libc.so.6", "line": 0},
        ],
    }
] * 2

PYSPY_TEXT = b"""Process 4242: python train.py
Python v3.11.4 (/usr/bin/python3.11)

Thread 4242 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    main (/srv/train.py:32)
Thread 0x7F31C0A1 (active+gil): "Thread-3 (_pin_memory_loop)"
    read (libc.so.6)
"""

FAULTHANDLER = b"""Fatal Python error: Aborted

Thread 0x00007f4217091b80 [python3] (most recent call first):
  File "/srv/train.py", line 32 in main
  File "/srv/train.py", line ??? in <module>

Current thread 0x00007f4217091b81 (most recent call first):
  File "/srv/lib.py", line 7 in wait
"""

PYSTACK = b"""Traceback for thread 4242 (python3) [Has the GIL] (most recent call last):
    (Python) File "/srv/train.py", line 32, in main
    (C) File "???", line 0, in read (libc.so.6)
"""

LOGS = (
    b"""[rank2]:[E101 03:11:02.123456789 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation \
timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600029 milliseconds.
node7:4242:4300 [3] NCCL INFO AllReduce: opCount 1f sendbuff 0x7f00 recvbuff 0x7f01 count 8 datatype 7 op 0 root 0 \
comm 0x55d0 [nranks=8] stream 0x55d1
node7:4242:4300 [3] NCCL WARN NET/IB : Got completion from peer 10.3.0.9<4791> with status=12 opcode=1 len=0
node7:4242:4242 [0] NCCL INFO NET/Socket : Using [0]eth0:10.3.0.7<0>
node7:4242:4242 [0] NCCL INFO comm 0x55d0 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 1b000 commId 0x9d2f - Init COMPLETE
""",
    b"""2026-01-05 03:12:44,123 INFO step 3120 loss 2.1 token=hf_abcdefabcdefabcdef
[rank1]: Traceback (most recent call last):
[rank1]:   File "/srv/train.py", line 40, in <module>
[rank1]:     main()
[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: \
CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[8], TensorDtypes=Float), but Rank 0 is running \
collective: CollectiveFingerPrint(SequenceNumber=7, OpType=BROADCAST).
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB
[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 30000 ms
[c10d] The client socket has timed out after 900000ms while trying to connect to (node1, 29500).
""",
)

KERNEL = (
    b"NVRM: Xid (PCI:0000:1b:00): 79, pid=4242, name=python3, GPU has fallen off the bus.",
    b"Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:2kB, file-rss:0kB, shmem-rss:0kB, UID:1000",
    b"INFO: task python3:4242 blocked for more than 120 seconds.",
    b"nfs: server filer7 not responding, still trying",
)

KERNEL_FILES = (
    b"Nov 21 19:27:03 node01 kernel: [12345.678901] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python3, x\n"
    b"Nov 21 19:27:04 node01 systemd[1]: Started x.\n"
    b"2026-11-21T19:27:03.123456+00:00 node01 kernel: Out of memory: Killed process 4242 (python3) total-vm:1kB\n",
    b"[   12.345678] audit: type=1400 audit(1700000000.123:45): x\n"
    b"[  134.000000] INFO: task python3:4242 blocked for more than 120 seconds.\n"
    b"[  134.000001]  nfs_wait+0x3a/0x60 [nfs]\n"
    b"[Sat Nov 21 19:27:03 2026] nfs: server nas1 not responding, still trying\n"
    b"kern  :err   : 2026-11-21T19:27:03,123456+00:00 NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.\n"
    b"4,1234,98765432,-;python3[4242]: segfault at 18 ip 00007f00 sp 00007f00 error 4 in x.so\n",
)

COMMANDS = (
    b"python train.py --wandb-api-key=0123456789abcdef --token abc 'Authorization: Bearer eyJhbGciOi.eyJz.c2ln'",
    b'DB_PASSWORD="hunter2 x" curl https://alice:hunter2@registry.example.com/v2 hf_abcdefabcdef AKIAABCDEFGHIJKLMNOP',
)

GROUPS: dict[str, Any] = {
    "version": 1,
    "groups": [{"name": "1", "description": "tp0", "backend": "gloo", "ranks": [0, 1]}] * 2,
}

HTTP = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"entries":1}'

NET_TCP = b"""  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0100007F:D2A4 01 00000000:00000000 00:00000000 00000000  1000        0 43210 1 0 20 4 30 10 -1
   1: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000001000000:D2A4 0A 00000000:0 00:0 0 0 0 32109 1
"""

NET_UNIX = b"""Num       RefCount Protocol Flags    Type St Inode Path
ffff8f2a: 00000002 00000000 00010000 0001 01 32109 /run/user/1000/bus
ffff8f2b: 00000003 00000000 00000000 0001 03 43210 @abstract
"""

MOUNTINFO = b"""36 35 98:0 /mnt1 /mnt/data rw,noatime master:1 - nfs4 filer7:/export rw,errors=continue
22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
40 22 0:50 / /mnt/a\\040b rw - fuse.sshfs x rw
"""

RAS_TEXT = b"""NCCL version 2.26.2 compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  MISMATCH

Warnings
========

#0-0 (9d2f00c1a7e45b33) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 412
  Rank 3 has launched up to operation 411 -- GPU 3 managed by process 40117 on node 10.3.0.14
  Missing communicator data from 1 rank
  The missing rank: 5
  Encountered 2 communication timeouts while gathering communicator data
"""

RAS: dict[str, Any] = {
    "nccl_version": "2.28.9",
    "timestamp": "2026-01-05 03:12:44",
    "communicators_count": 1,
    "ras": {"timeouts_count": 0},
    "communicators": [
        {
            "hash": "0x9d2f",
            "secondary_hash": "0x1",
            "size": 4,
            "ranks": [
                {
                    "rank": rank,
                    "host": "10.3.0.14",
                    "pid": 40_100 + rank,
                    "cuda_dev": rank,
                    "nvml_dev": rank,
                    "status": {"init_state": 0, "async_error": 0, "finalize_called": False},
                    "collective_counts": {"AllReduce": 412 - (rank == 2), "Broadcast": 1},
                }
                for rank in range(3)
            ],
            "missing_ranks": [
                {
                    "rank": 3,
                    "host": "10.3.0.15",
                    "pid": 41_000,
                    "status": {"considered_dead": True, "unresponsive": True},
                }
            ],
        }
    ],
}


def _snapshot() -> NodeSnapshot:
    silent = Missing(source="gpu", reason=Reason.NOT_FOUND, detail="no GPU")
    ranks = case_ranks("missing_rank2", (0, 1), host="node1")
    told = tuple(each.model_copy(update={"setup": rank(each.identity.rank).setup}) for each in ranks)
    return NodeSnapshot(host="node1", ranks=told, missing=(silent,))


SNAPSHOT: dict[str, Any] = json.loads(_snapshot().model_dump_json())
SURVEY: dict[str, Any] = json.loads(survey_of(_snapshot()).model_dump_json())
RANK_LIST: dict[str, Any] = json.loads(
    RankList(host="node1", ranks=tuple(rank.identity for rank in _snapshot().ranks)).model_dump_json()
)


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in (("snapshots/node1.json", json.dumps(SNAPSHOT).encode()), ("../evil_1", DUMPS[0])):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("dump_rank_1", DUMPS[0])
        archive.writestr("manifest.json", '{"unhang_bundle": 1, "files": []}')
    return out.getvalue()


FILES = (
    _tar(),
    gzip.decompress(_tar()),
    _zip(),
    gzip.compress(json.dumps(SNAPSHOT).encode()),
    json.dumps(SNAPSHOT).encode(),
    b'{"unhang_bundle": 1, "files": [], "expected": {"job": null}}',
    *DUMPS[:1],
    PYSPY_TEXT,
    FAULTHANDLER,
    RAS_TEXT,
    *LOGS,
    *KERNEL_FILES,
)

TARGETS = [
    {"targets": ["node1:8471", "http://proxy/node2", "[fe80::7]:9000"], "labels": {"rack": "a1", "__scheme__": "http"}},
    {"targets": ["node3"]},
]
TARGETS_YAML = b"# nodes\n- targets:\n  - node1:8471\n  - node2\n  labels: {rack: a1}\n- targets: [node3]\n"
PODS = {
    "kind": "PodList",
    "metadata": {"resourceVersion": "7", "continue": "abc"},
    "items": [
        {
            "metadata": {"name": "w-0", "namespace": "team", "uid": "u", "labels": {"job-name": "llama"}},
            "spec": {"nodeName": "node1"},
            "status": {
                "phase": "Running",
                "podIP": "192.0.2.1",
                "containerStatuses": [
                    {
                        "name": "train",
                        "containerID": "containerd://abc",
                        "restartCount": 3,
                        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
                    }
                ],
            },
        }
    ],
}
WATCH = (
    {
        "type": "MODIFIED",
        "object": {
            "metadata": {"name": "w-0", "namespace": "team", "uid": "u", "resourceVersion": "12745"},
            "spec": {"nodeName": "node1"},
            "status": {"phase": "Failed", "reason": "Evicted"},
        },
    },
    {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "12746"}}},
)
WATCH_ENDED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


def _recorder_in_memory() -> bytes:
    """A flight record as it lies in memory, with members, marks and stacks; its address stands at the beginning."""
    image = RecorderImage(read_layouts().layouts[-1])
    pointer = image.allocate(8)
    code = image.code_object("3.11", "/opt/train.py", "train", b"\xe8\x04\xd9\x04\x0c")
    operations = [Operation(n, sequence=n + 1, stack=((code, 2), (code, 0))) for n in range(4)]
    members = {("0", "default_pg"): (0, 1), ("1", "a description that is long"): (1, 0)}
    image.number(pointer, image.recorder(operations, statuses={0: (4, 4, 3), 1: (-1, -1, -1)}, members=members))
    return bytes(image.data)


ELF = elf_with_tables(symbol(1, 5) + symbol(6, 9), b"\0made\0hidden\0")
RECORDER_IN_MEMORY = _recorder_in_memory()
MAPS = (
    b"55d0c8a5f000-55d0ca1b2000 rw-p 00000000 00:00 0                          [heap]\n"
    b"7f5a1c000000-7f5a1c026000 r--p 00000000 08:01 131    /opt/torch/lib/libtorch_cpu.so (deleted)\n"
    b"7f5a1c026000-7f5a1c027000 rw-p 00026000 08:01 131    /opt/torch/lib/libtorch_cpu.so (deleted)\n"
)
