"""What lines of the kernel log mean: one row per kind of line.

Above each pattern is a line that it must match, made up in the grammar of the driver that prints it. Lines that healthy
nodes print as well match nothing: corrected errors, devices that appear, the process that requested memory when another
was killed. A pattern is tried only on lines that hold its `hint`, and none can backtrack far.
"""

import re
from typing import NamedTuple

from shared.redaction.redact import redact
from shared.wire.kernel_events import KernelEvent, KernelEventKind

LONGEST_LINE = 1024
_LONGEST_TEXT = 300


class KernelMatcher(NamedTuple):
    """One kind of line. Its named groups are fields of `KernelEvent`."""

    kind: KernelEventKind
    hint: str
    pattern: re.Pattern[str]


def _row(kind: KernelEventKind, hint: str, pattern: str) -> KernelMatcher:
    return KernelMatcher(kind, hint, re.compile(pattern))


_PCI = r"(?P<device>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_LINK = r"(?P<interface>[\w.@-]{1,32}): (?:Port: \d{1,3} )?(?:NIC )?Link (?:is )?"
_NIC = r"(?:mlx[45]_core|mlx5_ib|bnxt_en|bnxt_re|ice|irdma|i40e|ixgbe|igb|igc|e1000e|ena|efa|tg3|cxgb4|hinic3?|ionic)"
_COMM = r"(?P<name>[^\n]{1,64}?)"

KERNEL_MATCHERS = (
    # NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
    # NVRM: Xid (PCI:0000:3b:00): 31, pid=4242, name=python3, Ch 00000008, intr 00000000. MMU Fault: …
    # NVRM: Xid (0000:03:00): 13, Graphics Exception on GPC 0                                  before driver 340
    _row(
        KernelEventKind.XID,
        "NVRM: Xid (",
        rf"NVRM: Xid \((?:PCI:)?{_PCI}[^)]{{0,40}}\): (?P<code>\d{{1,4}})"
        r"(?:, pid=(?:(?P<pid>\d{1,10})|'?<unknown>'?))?(?:, name=(?:<unknown>|(?P<name>[^,\n]{1,64})))?",
    ),
    # nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
    # Not: nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error
    _row(
        KernelEventKind.SXID,
        "SXid (PCI:",
        rf"(?P<interface>nvidia-nvswitch\d{{1,3}}):? SXid \(PCI:{_PCI}\): (?P<code>\d{{1,6}}), Fatal",
    ),
    # NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
    # NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x55:2477)
    _row(
        KernelEventKind.GPU_DRIVER,
        "NVRM: GPU ",
        rf"NVRM: GPU {_PCI}: (?:GPU has fallen off the bus|RmInitAdapter failed)",
    ),
    # NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus and is not …
    #              NVRM: fallen off the bus and is not responding to commands.           the same, on three lines
    _row(
        KernelEventKind.GPU_DRIVER,
        "fallen off the bus and is not",
        rf"NVRM: (?:The NVIDIA GPU {_PCI} .{{0,80}})?(?:has )?fallen off the bus and is not responding",
    ),
    # NVRM: nvCheckOkFailedNoLog: Check failed: NVLink fabric state cached by the driver is out of sync […] (0x00000087)
    _row(KernelEventKind.GPU_DRIVER, "NVLink fabric state", r"NVRM: .{0,80}NVLink fabric state .{0,60}out of sync"),
    # NVRM: knvlinkSendInbandData_IMPL: Failed to send inband data: 0
    _row(
        KernelEventKind.GPU_DRIVER, "Failed to send inband data", r"NVRM: knvlink\w{1,60}: Failed to send inband data"
    ),
    # amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!
    _row(KernelEventKind.GPU_DRIVER, "GPU reset begin", rf"amdgpu {_PCI}: (?:amdgpu: )?GPU reset begin"),
    # INFO: task python3:4242 blocked for more than 120 seconds.
    # INFO: task python3:4242 blocked in I/O wait for more than 120 seconds.
    _row(
        KernelEventKind.HUNG_TASK,
        "INFO: task ",
        rf"^INFO: task {_COMM}:(?P<pid>\d{{1,10}}) blocked (?:in I/O wait )?for more than \d{{1,9}} seconds",
    ),
    # watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python3:4242]
    _row(
        KernelEventKind.LOCKUP,
        "soft lockup - CPU",
        rf"BUG: soft lockup - CPU#\d{{1,5}} stuck for \d{{1,9}}s! \[{_COMM}:(?P<pid>\d{{1,10}})\]",
    ),
    # watchdog: Watchdog detected hard LOCKUP on cpu 3
    _row(KernelEventKind.LOCKUP, "hard LOCKUP on cpu", r"detected hard LOCKUP on cpu \d{1,5}"),
    # Memory cgroup out of memory: Killed process 4242 (python3) total-vm:91234kB, anon-rss:80000kB, …
    # Out of memory: Kill process 4242 (python3) score 912 or sacrifice child                          before Linux 5.0
    # Not: python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
    _row(
        KernelEventKind.OOM_KILL,
        "ut of memory",
        rf"ut of memory(?: \([^)]{{1,60}}\))?: Kill(?:ed)? process (?P<pid>\d{{1,10}}) \({_COMM}\)",
    ),
    # python3[4242]: segfault at 18 ip 00007f… sp 00007f… error 4 in libtorch_cuda.so[7f…+1a2000]
    _row(
        KernelEventKind.CRASH,
        "]: segfault at ",
        rf"^{_COMM}\[(?P<pid>\d{{1,10}})\]: segfault at [0-9a-f]{{1,16}} ip ",
    ),
    # traps: python3[4242] general protection fault ip:7f… sp:7f… error:0 in libc.so.6[7f…+1a2000]
    _row(
        KernelEventKind.CRASH,
        "traps: ",
        rf"^traps: {_COMM}\[(?P<pid>\d{{1,10}})\] (?:general protection fault|trap invalid opcode|trap divide error)",
    ),
    # mlx5_core 0000:5e:00.0 ens3f0np0: Link down        bnxt_en 0000:5e:00.0 eth2: NIC Link is Down
    # e1000e 0000:00:1f.6 eno1: NIC Link is Down         mlx5_core 0000:5e:00.0 mlx5_1: Port: 1 Link DOWN
    _row(
        KernelEventKind.LINK_DOWN,
        "ink",
        rf"^{_NIC}(?: {_PCI})?:? {_LINK}[Dd](?:own|OWN)\b",
    ),
    # mlx5_core 0000:5e:00.0 ens3f0np0: Link up          ice 0000:5e:00.0 eth2: NIC Link is up 100 Gbps Full Duplex
    _row(
        KernelEventKind.LINK_UP,
        "ink",
        rf"^{_NIC}(?: {_PCI})?:? {_LINK}[Uu][pP]\b",
    ),
    # mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged
    # mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error, High Temperature
    _row(
        KernelEventKind.LINK_DOWN,
        "Port module event",
        rf"^mlx5_core {_PCI}: .{{0,80}}Port module event(?:\[error\])?: module \d{{1,3}}, Cable (?:unplugged|error)",
    ),
    # mlx5_core 0000:5e:00.0: poll_health:801:(pid 0): device's health compromised - reached miss count
    # mlx5_core 0000:5e:00.0: print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3)
    # mlx5_core 0000:5e:00.0: wait_func:1137:(pid 967): 2ERR_QP(0x507) timeout. Will cause a leak of a command resource
    _row(
        KernelEventKind.NIC_ERROR,
        "mlx5_core ",
        rf"^mlx5_core {_PCI}[^\n]{{0,120}}(?:health compromised|Health issue observed|Fatal error \d{{1,3}} detected"
        r"|\) timeout\. Will cause a leak|health recovery flow aborted|in fatal state|insufficient power on the PCIe)",
    ),
    # NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 5 timed out 6004 ms
    _row(
        KernelEventKind.NIC_ERROR,
        "NETDEV WATCHDOG",
        r"NETDEV WATCHDOG: (?:CPU: \d{1,5}: )?(?P<interface>[\w.@-]{1,32}) \([\w-]{1,32}\): transmit queue \d{1,5} t",
    ),
    # pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0          Uncorrectable: Linux 6.9 on
    # Not: pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0
    _row(
        KernelEventKind.PCIE_ERROR,
        "AER: ",
        r"AER: (?:Multiple )?Uncorrect(?:ed|able) \((?:Non-)?Fatal\) error (?:message )?received(?: from|:) " + _PCI,
    ),
    # nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)
    _row(
        KernelEventKind.PCIE_ERROR,
        "PCIe Bus Error",
        rf"{_PCI}: (?:AER: )?PCIe Bus Error: severity=Uncorrect(?:ed|able) \((?:Non-)?Fatal\)",
    ),
    # pcieport 0000:3a:00.0: pciehp: Slot(5): Link Down
    _row(
        KernelEventKind.PCIE_ERROR, "pciehp: Slot(", rf"{_PCI}: pciehp: Slot\([\w-]{{1,16}}\): (?:Link Down|Card not)"
    ),
    # nfs: server nas1 not responding, still trying        nfs: server nas1 not responding, timed out
    # Not: nfs: server nas1 OK
    _row(KernelEventKind.STORAGE, "not responding", r"^nfs: server \S{1,255} not responding"),
    # Lustre: 4242:0:(client.c:2289:ptlrpc_expire_one_request()) @@@ Request sent has timed out for slow reply: …
    # Lustre: fs-OST0001-osc-ffff8a: Connection to fs-OST0001 (at 10.1.2.3@tcp) was lost; in progress operations …
    _row(
        KernelEventKind.STORAGE,
        "Lustre",
        r"^Lustre(?:Error)?: .{0,200}(?:Connection to \S{1,128} .{0,80}was lost|evicted)",
    ),
    # ceph: mds0 hung        libceph: osd12 (1)10.1.2.3:6800 socket closed (con state OPEN) is what healthy ones print
    _row(KernelEventKind.STORAGE, "ceph: mds", r"^ceph: .{0,60}mds\d{1,5} (?:hung|caps stale)"),
    # CIFS: VFS: \\nas1\data has not responded in 180 seconds. Reconnecting...
    _row(KernelEventKind.STORAGE, "has not responded in", r"^CIFS: .{0,200}has not responded in \d{1,9} seconds"),
    # nvme nvme0: I/O tag 12 (000c) opcode 0x2 (Read) QID 3 timeout, aborting req_op:READ(0) size:4096
    _row(
        KernelEventKind.STORAGE,
        "timeout, ",
        r"^nvme (?P<interface>nvme\d{1,4}): I/O .{0,80}timeout, (?:aborting|reset|completion polled)",
    ),
    # I/O error, dev nvme0n1, sector 12345 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2
    _row(KernelEventKind.STORAGE, "I/O error, dev ", r"I/O error, dev (?P<interface>[\w-]{1,32}), sector \d{1,20}"),
    # EXT4-fs error (device sda1): ext4_lookup:1785: inode #2: comm python3: deleted inode referenced: 12
    # XFS (sdb1): Corruption detected. Unmount and run xfs_repair
    _row(
        KernelEventKind.STORAGE,
        "(",
        r"^(?:EXT4-fs error \(device |XFS \((?=[\w-]{1,32}\): Corruption))(?P<interface>[\w-]{1,32})\)",
    ),
)

_FRAME = re.compile(
    # __mlx5_ib_dereg_mr+0x379/0x5d0 [mlx5_ib]        ? lock_release+0xc6/0x280 is a guess of the kernel's: left out
    r"^\s{0,8}(?P<frame>[\w.$]{1,128}\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}(?: \[\w{1,64}(?: [\w()]{1,16})?\])?)\s{0,4}$"
)


def read_kernel_line(line: str) -> KernelEvent | None:
    """Return the event of one kernel line, without its time; None if it is not relevant."""
    line = line[:LONGEST_LINE]
    for row in KERNEL_MATCHERS:
        if row.hint in line and (match := row.pattern.search(line)) is not None:
            fields = {name: value for name, value in match.groupdict().items() if value is not None}
            if "device" in fields:
                fields["device"] = fields["device"].lower()
            return KernelEvent.model_validate({"kind": row.kind, "text": redact(line)[:_LONGEST_TEXT], **fields})
    return None


def read_kernel_frame(line: str) -> str | None:
    """Return the kernel function that a line of a stack names, with its module; None for any other line."""
    match = _FRAME.match(line[:LONGEST_LINE])
    return None if match is None else match["frame"]
