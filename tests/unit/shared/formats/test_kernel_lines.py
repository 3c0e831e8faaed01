"""What lines of the kernel tell, one of each kind, beside those that healthy nodes print as well."""

import time
from pathlib import Path

import pytest

from shared.formats.kernel_lines import KERNEL_MATCHERS, read_kernel_frame, read_kernel_line
from shared.wire.kernel_events import KernelEvent, KernelEventKind

XID = "NVRM: Xid (PCI:0000:3B:00): "

TELLING = [
    (
        XID + "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        {"kind": "xid", "code": 79, "device": "0000:3b:00", "pid": None, "name": None},
    ),
    (XID + "79, GPU has fallen off the bus.", {"kind": "xid", "code": 79, "pid": None}),
    (
        XID + "31, pid=4242, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted",
        {"kind": "xid", "code": 31, "pid": 4242, "name": "python3"},
    ),
    (XID + "94, pid=4242, Contained: SM (0x1). RST: No, D-RST: No", {"kind": "xid", "code": 94, "pid": 4242}),
    ("NVRM: Xid (PCI:0000:9b:00 GPU-I:05): 31, pid=7, Ch 8", {"kind": "xid", "code": 31, "device": "0000:9b:00"}),
    ("NVRM: Xid (0000:03:00): 13, Graphics Exception on GPC 0", {"kind": "xid", "code": 13, "device": "0000:03:00"}),
    (
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        {"kind": "sxid", "code": 20034, "device": "0000:c1:00.0", "interface": "nvidia-nvswitch3"},
    ),
    (
        "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x55:2477)",
        {"kind": "gpu_driver", "device": "0000:3b:00.0"},
    ),
    (
        "NVRM: nvCheckOkFailedNoLog: Check failed: NVLink fabric state cached by the driver is out of sync",
        {"kind": "gpu_driver"},
    ),
    (
        "NVRM: The NVIDIA GPU 0000:5e:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the bus and is "
        "not responding to commands.",
        {"kind": "gpu_driver", "device": "0000:5e:00.0"},
    ),
    ("               NVRM: fallen off the bus and is not responding to commands.", {"kind": "gpu_driver"}),
    ("amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!", {"kind": "gpu_driver", "device": "0000:c3:00.0"}),
    (
        "INFO: task python3:4242 blocked for more than 120 seconds.",
        {"kind": "hung_task", "pid": 4242, "name": "python3"},
    ),
    ("INFO: task pt_data_worker:0:77 blocked for more than 241 seconds.", {"pid": 77, "name": "pt_data_worker:0"}),
    ("INFO: task cp:9 blocked in I/O wait for more than 122 seconds.", {"kind": "hung_task", "pid": 9}),
    ("watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python3:4242]", {"kind": "lockup", "pid": 4242}),
    (
        "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:91234kB, anon-rss:80000kB",
        {"kind": "oom_kill", "pid": 4242, "name": "python3"},
    ),
    ("Out of memory: Killed process 4243 (ray::IDLE) total-vm:91234kB", {"kind": "oom_kill", "name": "ray::IDLE"}),
    ("Out of memory: Kill process 4242 (a b) score 912 or sacrifice child", {"kind": "oom_kill", "name": "a b"}),
    (
        "python3[4242]: segfault at 18 ip 00007f00 sp 00007ffc error 4 in libtorch_cuda.so[7f00+1a2000]",
        {"kind": "crash", "pid": 4242, "name": "python3"},
    ),
    ("traps: python3[4242] general protection fault ip:7f00 sp:7ffc error:0 in libc.so.6", {"kind": "crash"}),
    (
        "mlx5_core 0000:5e:00.0 ens3f0np0: Link down",
        {"kind": "link_down", "device": "0000:5e:00.0", "interface": "ens3f0np0"},
    ),
    ("bnxt_en 0000:5e:00.0 eth2: NIC Link is Down", {"kind": "link_down", "interface": "eth2"}),
    ("mlx5_core 0000:5e:00.0 mlx5_1: Port: 1 Link DOWN", {"kind": "link_down", "interface": "mlx5_1"}),
    ("mlx5_core 0000:5e:00.0 ens3f0np0: Link up", {"kind": "link_up", "interface": "ens3f0np0"}),
    ("ice 0000:5e:00.0 eth2: NIC Link is up 100 Gbps Full Duplex", {"kind": "link_up", "interface": "eth2"}),
    ("mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged", {"kind": "link_down"}),
    (
        "mlx5_core 0000:5e:00.0: poll_health:801:(pid 0): device's health compromised - reached miss count",
        {"kind": "nic_error", "device": "0000:5e:00.0", "pid": None},
    ),
    (
        "mlx5_core 0000:5e:00.0: wait_func:1137:(pid 967): 2ERR_QP(0x507) timeout. Will cause a leak of a command",
        {"kind": "nic_error"},
    ),
    (
        "NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 5 timed out 6004 ms",
        {"kind": "nic_error", "interface": "eth2"},
    ),
    (
        "pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0",
        {"kind": "pcie_error", "device": "0000:3b:00.0"},
    ),
    (
        "pcieport 0000:3a:00.0: AER: Multiple Uncorrectable (Non-Fatal) error message received from 0000:3b:00.0",
        {"kind": "pcie_error", "device": "0000:3b:00.0"},
    ),
    (
        "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        {"kind": "pcie_error"},
    ),
    ("pcieport 0000:3a:00.0: pciehp: Slot(5): Link Down", {"kind": "pcie_error", "device": "0000:3a:00.0"}),
    ("nfs: server nas1.example not responding, still trying", {"kind": "storage"}),
    (
        "Lustre: fs-OST0001-osc-ffff8a: Connection to fs-OST0001 (at 10.1.2.3@tcp) was lost; in progress",
        {"kind": "storage"},
    ),
    ("CIFS: VFS: \\\\nas1\\data has not responded in 180 seconds. Reconnecting...", {"kind": "storage"}),
    (
        "nvme nvme0: I/O tag 12 (000c) opcode 0x2 (Read) QID 3 timeout, aborting req_op:READ(0) size:4096",
        {"kind": "storage"},
    ),
    ("I/O error, dev nvme0n1, sector 12345 op 0x0:(READ) flags 0x80700", {"kind": "storage", "interface": "nvme0n1"}),
    ("EXT4-fs error (device sda1): ext4_lookup:1785: inode #2: comm python3: deleted inode", {"kind": "storage"}),
    ("XFS (sdb1): Corruption detected. Unmount and run xfs_repair", {"kind": "storage", "interface": "sdb1"}),
]

HEALTHY = [
    "",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
    "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)",
    "nvidia-nvswitch3: using MSI",
    "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms",
    "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "oom_reaper: reaped process 4242 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
    "Tasks state (memory values in pages):",
    "pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0",
    "pcieport 0000:3a:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "mlx5_core 0000:5e:00.0: firmware version: 28.39.1002",
    "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable plugged",
    "mlx5_core 0000:5e:00.0: mlx5_cmd_eq_recover:247:(pid 3122): Recovered 1 EQEs on cmd_eq",
    "IPv6: ADDRCONF(NETDEV_CHANGE): veth12: link becomes ready",
    "docker0: port 1(veth12ab) entered disabled state",
    "veth12: Link down",
    "usb 1-1: USB disconnect, device number 4",
    "nfs: server nas1.example OK",
    "Lustre: Mounted fs-client",
    "libceph: osd12 (1)10.1.2.3:6800 socket closed (con state OPEN)",
    "EXT4-fs (sda1): mounted filesystem with ordered data mode. Quota mode: none.",
    "XFS (sdb1): Ending clean mount",
    "nvme nvme0: 32/0/0 default/read/poll queues",
    "TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.",
    "perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate",
    'audit: type=1400 audit(1700000000.1:2): apparmor="STATUS" operation="profile_load"',
    "task:python3         state:D stack:0     pid:4242 tgid:4242  ppid:1685   flags:0x00000000",
    "my log: INFO: task python3:4242 blocked for more than 120 seconds.",
]


@pytest.mark.parametrize(("text", "told"), TELLING, ids=[text[:50] for text, _ in TELLING])
def test_lines_that_tell(text: str, told: dict[str, object]) -> None:
    """Kind, process, device and number, whatever the driver's version."""
    event = read_kernel_line(text)
    assert event is not None
    assert {name: getattr(event, name) for name in told} == told
    assert event.text == text[:300]


@pytest.mark.parametrize("text", HEALTHY, ids=[text[:50] for text in HEALTHY])
def test_lines_that_healthy_nodes_print_too(text: str) -> None:
    """They accuse nobody."""
    assert read_kernel_line(text) is None


def test_every_row_is_met_by_a_line() -> None:
    """A row that nothing tests is a row that nobody can trust."""
    met = {row.pattern for row in KERNEL_MATCHERS for text, _ in TELLING if row.pattern.search(text)}
    unmet = [row.pattern.pattern for row in KERNEL_MATCHERS if row.pattern not in met]
    assert len(unmet) <= 3, unmet


@pytest.mark.parametrize(
    "text",
    [
        *(row.hint * 400 for row in KERNEL_MATCHERS),
        "NVRM: Xid (PCI:" + "0" * 5000,
        "INFO: task " + "a:1 blocked for more than " * 300,
        "mlx5_core 0000:5e:00.0 " + "a" * 3000 + ": Link",
        "\x00\x1b[31m" * 500,
    ],
)
def test_hostile_lines_take_no_time(text: str) -> None:
    """A process may name itself as it likes, and the kernel prints that name."""
    begun = time.thread_time()
    event = read_kernel_line(text)
    assert time.thread_time() - begun < 0.05
    assert event is None or len(event.text) <= 300


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        (" __mlx5_ib_dereg_mr+0x379/0x5d0 [mlx5_ib]", "__mlx5_ib_dereg_mr+0x379/0x5d0 [mlx5_ib]"),
        ("schedule+0x47/0x130", "schedule+0x47/0x130"),
        (" os_acquire_semaphore+0x4c/0x60 [nvidia]", "os_acquire_semaphore+0x4c/0x60 [nvidia]"),
        (" ? lock_release+0xc6/0x280", None),
        (" <TASK>", None),
        ("Call Trace:", None),
        ("RIP: 0033:0x7f0000000000", None),
    ],
)
def test_frames_of_the_kernel(text: str, frame: str | None) -> None:
    """With the module they are of; the kernel's guesses are left out."""
    assert read_kernel_frame(text) == frame


def test_secrets_in_names_are_hidden() -> None:
    """The text travels."""
    event = read_kernel_line("nfs: server https://u:hunter2@nas1/x not responding, still trying")
    assert event == KernelEvent(
        kind=KernelEventKind.STORAGE, text="nfs: server https://***@nas1/x not responding, still trying"
    )


def test_page_about_nodes_names_every_kind() -> None:
    """But for links that come back, which take back what was said."""
    page = (Path(__file__).resolve().parents[4] / "docs" / "nodes.md").read_text(encoding="utf-8")
    unnamed = [kind.value for kind in KernelEventKind if f"`{kind.value}`" not in page]
    assert unnamed == ["link_up"]
