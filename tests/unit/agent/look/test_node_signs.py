"""What happens to a node beside its ranks: GPUs that spin, ports that go down, kernel lines."""

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.deadline import Deadline, ThreadPool
from agent.errors import Unavailable
from agent.look.gpu_watch import GpuWatch
from agent.look.node_signs import SIGN_SECONDS, NodeSigns
from agent.look.port_watch import PortWatch
from agent.proc.procfs import ProcFs
from agent.sources.kernel_log import KernelLog
from agent.sources.ports import PortReading
from agent.sources.ras.monitor import RasMonitor
from shared.missing import Reason
from shared.wire.devices import Gpu, GpuProcess, Gpus
from shared.wire.registration import NodeDigest, Sign


class Device:
    """One GPU of a test's making, read by a watch."""

    def __init__(self) -> None:
        self.now = 0.0
        self.gpu = Gpu(index=0, uuid="GPU-0", processes=(GpuProcess(pid=42),))
        self.watch = GpuWatch(lambda _: Gpus(gpus=(self.gpu,)), lambda: self.now)

    def read(
        self, power: float | None, used: int | None = 100, *, at_work: bool = False, moved: int | None = None
    ) -> Gpu:
        """Read it two minutes later."""
        self.now += 120.0
        told = {"power_watts": power, "utilization_percent": used, "nvlink_bytes": moved}
        self.gpu = self.gpu.model_copy(update=told)
        return self.watch.read(Deadline(5), at_work=at_work).gpus[0]

    def trained(self) -> "Device":
        """It has computed for some minutes."""
        for power in (640.0, 660.0, 650.0, 655.0):
            self.read(power, at_work=True)
        return self


def test_gpu_that_spins() -> None:
    """Fully used, at a fraction of its own usual power: NCCL's kernel waits."""
    device = Device().trained()
    gpu = device.read(180.0)
    assert (gpu.spins, gpu.usual_power_watts) == (True, 652.5)
    assert device.watch.spinning == {42}
    device.now += 300.0
    assert device.watch.spinning == frozenset()


@pytest.mark.parametrize(
    ("power", "used", "moved"), [(600.0, 100, None), (180.0, 3, None), (None, 100, None), (180.0, 100, 1 << 40)]
)
def test_gpu_that_does_not(power: float | None, used: int, moved: int | None) -> None:
    """It computes, has nothing to do, tells no power, or moves data over NVLink."""
    device = Device().trained()
    device.read(650.0, moved=0, at_work=True)
    assert not device.read(power, used, moved=moved).spins
    assert device.watch.spinning == frozenset()


def test_gpu_without_a_history_spins_for_nobody() -> None:
    """Nobody knows what is usual: neither before it was watched, nor where it never computed."""
    device = Device()
    assert device.read(180.0).spins is None
    for _ in range(5):
        device.read(90.0, used=1, at_work=True)
    assert device.read(180.0).spins is None


def test_driver_is_asked_seldom() -> None:
    """Each time costs a process: every two minutes, and sooner some times after ranks came to a stand."""
    device = Device()
    device.read(650.0, at_work=True)
    device.now += 31.0
    assert not device.watch.is_due(at_work=True) and device.watch.is_due(at_work=False)
    for _ in range(4):
        device.read(650.0)
    device.now += 31.0
    assert not device.watch.is_due(at_work=False)


LINES = (
    "0,1,1000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python3, GPU has fallen off the bus.\n",
    "4,2,2000000,-;mlx5_core 0000:5e:00.0 mlx5_1: Port: 1 Link DOWN\n",
    "6,3,3000000,-;mlx5_core 0000:5e:00.0 mlx5_0: Port: 1 Link UP\n",
)


def log_of(tmp_path: Path, *lines: str) -> KernelLog:
    """A log of these lines, of which each read gives the next."""
    path = tmp_path / "kmsg"
    path.write_text("".join(lines[:1]))
    return KernelLog(ProcFs(), path)


def no_gpus(_: Deadline) -> Gpus:
    raise Unavailable(Reason.NOT_FOUND, "no NVIDIA driver on this node")


UP = PortReading("eth0", "ethernet", up=True)


class Signs:
    """The signs of a node with some ports, and its clock."""

    def __init__(self, log: KernelLog, *ports: PortReading, ras: bool = False, **more: Any) -> None:
        self.now = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC_RAW) + 1.0
        self.ports = list(ports or (UP,))
        self.ras = RasMonitor(ProcFs(), "here", clock=self.clock) if ras else None
        watch = PortWatch(lambda: tuple(self.ports), self.clock)
        gpus = more.get("gpus", GpuWatch(no_gpus))
        self.signs = NodeSigns(ThreadPool(), log, watch, gpus, self.clock, ras=self.ras)

    def clock(self) -> float:
        return self.now

    def after(self, seconds: float) -> list[tuple[str, str]]:
        """Let time go by, take a beat, and return the signs."""
        self.now += seconds
        self.signs.beat(Deadline(20), at_work=True)
        return self.told()

    def told(self) -> list[tuple[str, str]]:
        return [(sign.kind, sign.name) for sign in self.signs.signs()]


def test_kernel_lines_are_signs(tmp_path: Path) -> None:
    """While they are young."""
    signs = Signs(log_of(tmp_path, *LINES))
    assert signs.after(0.0) == [("xid", "0000:3b:00")]
    signs.now += SIGN_SECONDS + 10
    assert signs.told() == []


def test_port_that_went_down_is_a_sign(tmp_path: Path) -> None:
    """One that nobody uses has been down since before: that is none."""
    port = PortReading("mlx5_0/1", "infiniband", up=True, downs=0)
    signs = Signs(KernelLog(ProcFs(), tmp_path / "none"), port, PortReading("mlx5_9/1", "infiniband", up=False))
    assert signs.after(0.0) == []
    signs.ports[0] = replace(port, up=False, downs=1)
    assert signs.after(31.0) == [("port_down", "mlx5_0/1")]
    signs.ports[0] = replace(port, downs=1)
    assert signs.after(31.0) == []


def test_sick_driver_holds_up_one_beat_only(tmp_path: Path) -> None:
    """It hangs for good, and is not asked again for a while; what else there is is told as ever."""
    end, asked = threading.Event(), []

    def hang(_: Deadline) -> Gpus:
        asked.append(1)
        end.wait(60.0)
        return Gpus()

    signs = Signs(KernelLog(ProcFs(), tmp_path / "none"), gpus=GpuWatch(hang)).signs
    signs.beat(Deadline(1.0), at_work=True)
    begun = time.process_time()
    for _ in range(20):
        signs.beat(Deadline(30.0), at_work=True)
    assert time.process_time() - begun < 5.0 and len(asked) == 1
    end.set()


def test_digest_with_all_signs_is_short() -> None:
    """Eight of them, with the longest names, fit beside eight ranks."""
    signs = tuple(Sign(kind="port_down", name=f"mlx5_{n}/1".ljust(20, "x"), age=123.4) for n in range(8))
    assert len(NodeDigest(signs=signs).model_dump_json()) < 600


def test_what_ras_tells_is_a_sign_after_all_others(tmp_path: Path) -> None:
    """A job may make it up: it displaces nothing that the node itself shows."""
    signs = Signs(log_of(tmp_path, *LINES), ras=True)
    signs.after(0.0)
    signs.now += 20.0
    assert signs.ras is not None
    dead = b"[2025-12-19 13:07:07] PEER_DEAD: Process %d on node fd00::1:2:3:4:5:6:7 managing GPU 1 "
    for pid in range(20):
        signs.ras._take(dead % pid)
    first, *others = signs.told()
    assert first[0] == "xid" and {kind for kind, _ in others} == {"peer_dead"} and len(others) == 4
    assert others[-1][1] == "fd00::1:2:3:4:5:6:7 pid 19"
    signs.now += SIGN_SECONDS + 10
    assert signs.told() == []
