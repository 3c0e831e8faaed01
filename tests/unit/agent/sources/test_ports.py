"""Network ports from trees as /sys has them: entries and values as on machines with mlx5, mlx4 and hfi1 adapters."""

import os
import threading
from pathlib import Path

import pytest

from agent.errors import Unavailable
from agent.look.port_watch import PortWatch
from agent.sources.ports import PortReading, read_ports
from shared.missing import Reason
from tests.build.jobs.folders import write_files

# As prometheus/procfs keeps them of a ConnectX-5 (testdata/fixtures.ttar): state `4: ACTIVE`, phys_state `5: LinkUp`,
# counters that drivers do not keep read `N/A (no PMA)`.
MLX5 = {
    "state": "4: ACTIVE\n",
    "phys_state": "5: LinkUp\n",
    "link_layer": "InfiniBand\n",
    "rate": "400 Gb/sec (4X NDR)\n",
    "counters/link_downed": "0\n",
    "counters/port_xmit_data": "2880761508848\n",
    "counters/port_rcv_data": "18126345378\n",
    "counters/symbol_error": "0\n",
    "counters/port_rcv_errors": "N/A (no PMA)\n",
    "hw_counters/local_ack_timeout_err": "131\n",
    "hw_counters/lifespan": "10\n",
}
ETH0 = {
    "carrier": "1\n",
    "operstate": "up\n",
    "speed": "25000\n",
    "carrier_down_count": "2\n",
    "statistics/rx_bytes": "1000\n",
    "statistics/tx_bytes": "2000\n",
    "statistics/rx_errors": "0\n",
}


def rdma(sysfs: Path, device: str = "mlx5_0", **changed: str) -> Path:
    """A port of an RDMA device."""
    return write_files(sysfs / "class/infiniband" / device / "ports/1", MLX5 | changed)


def interface(sysfs: Path, name: str = "eth0", *, device: bool = True, **changed: str) -> Path:
    """A network interface, with a device behind it."""
    path = write_files(sysfs / "class/net" / name, ETH0 | changed)
    if device:
        (path / "device").symlink_to(sysfs)
    return path


def test_ports_of_a_node(tmp_path: Path) -> None:
    """Both kinds, with what the kernel tells of them; counters that it does not keep are left out."""
    rdma(tmp_path)
    interface(tmp_path)
    interface(tmp_path, "docker0", device=False)
    interface(tmp_path, "lo", device=False)
    first, second = read_ports(tmp_path)
    assert first == PortReading(
        name="mlx5_0/1",
        kind="infiniband",
        up=True,
        state="ACTIVE",
        rate="400 Gb/sec (4X NDR)",
        sent=4 * 2880761508848,
        received=4 * 18126345378,
        downs=0,
        errors={"symbol_error": 0, "local_ack_timeout_err": 131},
    )
    assert (second.name, second.kind, second.up, second.rate) == ("eth0", "ethernet", True, "25000 Mb/s")
    assert (second.sent, second.received, second.downs) == (2000, 1000, 2)


def test_port_that_is_down(tmp_path: Path) -> None:
    """How far its link has come is told; of an interface that is switched off the kernel refuses to tell.

    A container may see none at all.
    """
    with pytest.raises(Unavailable) as missing:
        read_ports(tmp_path)
    assert missing.value.reason is Reason.NOT_FOUND
    rdma(tmp_path, state="1: DOWN\n", phys_state="2: Polling\n", link_layer="Ethernet\n")
    path = interface(tmp_path)
    (path / "carrier").unlink()
    roce, off = read_ports(tmp_path)
    assert (roce.kind, roce.up, roce.state) == ("roce", False, "DOWN (Polling)")
    assert off.up is None


def test_odd_trees(tmp_path: Path) -> None:
    """Whatever stands there: nothing blocks, nothing is followed out of bounds, and the rest is told."""
    odd = rdma(tmp_path, "odd", state="4: ACT\x1b[31mIVE\n", rate="x" * 10_000)
    (odd / "phys_state").unlink()
    os.mkfifo(odd / "phys_state")
    (odd / "counters/link_downed").write_text("9" * 4000)
    (odd / "counters/symbol_error").write_bytes(b"\xff\xfe" * 100)
    (odd / "counters/port_rcv_data").unlink()
    (odd / "counters/port_rcv_data").mkdir()
    rdma(tmp_path, "d" * 200)
    (tmp_path / "class/infiniband/file").write_text("no folder")
    for number in range(200):
        interface(tmp_path, f"eth{number}")
    found: list[tuple[PortReading, ...]] = []
    reader = threading.Thread(target=lambda: found.append(read_ports(tmp_path)), daemon=True)
    reader.start()
    reader.join(60.0)
    (ports,) = found
    assert len(ports) == 64
    assert (ports[0].name, ports[0].up, ports[0].state, ports[0].downs) == ("odd/1", None, "", None)
    assert (ports[0].received, len(ports[0].rate)) == (None, 64)


class Readings:
    """Readings of one port that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.port = PortReading("mlx5_0/1", "infiniband", up=True, sent=0, received=0, downs=7, errors={"x": 5})
        self.watch = PortWatch(lambda: (self.port,), lambda: self.now)

    def at(self, now: float, **changed: object) -> PortWatch:
        self.now = now
        self.port = PortReading(**{**self.port.__dict__, **changed})  # type: ignore[arg-type]
        return self.watch


def test_what_grows_is_told() -> None:
    """Since the agent watches, for ten minutes; what counted before is nobody's fault now."""
    ports = Readings()
    assert ports.watch.is_due
    (first,) = ports.at(0.0).read().ports
    assert (first.went_down, first.errors, first.sent_per_second) == (None, {}, None)
    assert not ports.at(29.0).is_due and ports.at(30.0).is_due  # a look in between reads them, too
    (second,) = ports.at(30.0, sent=3_000, downs=8, up=False, errors={"x": 9, "y": 3}).read().ports
    assert (second.went_down, second.errors, second.sent_per_second) == (1, {"x": 4}, 100.0)
    (soon,) = ports.at(30.2, sent=3_020).read().ports
    assert soon.sent_per_second == 100.0
    (late,) = ports.at(700.0, sent=0).read().ports
    assert (late.went_down, late.errors, late.sent_per_second) == (None, {}, None)
