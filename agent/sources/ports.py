"""What the kernel tells of the node's network ports, in /sys/class/infiniband and /sys/class/net.

Formats: Documentation/ABI/stable/sysfs-class-infiniband and testing/sysfs-class-net of Linux. Files that are not there,
that cannot be read or that hold no number (`N/A (no PMA)`) are left out; nothing else in the tree is followed.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from agent.errors import Unavailable
from shared.missing import Reason
from shared.wire.devices import PortKind

SYSFS = Path("/sys")
_MOST_PORTS = 64
_MOST_ENTRIES = 512
"""Of a folder that are looked at: a node with many containers has hundreds of interfaces."""
_MOST_BYTES = 256
_MOST_NAME = 32
_LARGEST = (1 << 64) - 1
_WORD = 4
"""port_xmit_data and port_rcv_data count words of so many bytes (IBTA, PortCounters)."""
_ACTIVE = "4"

# link_error_recovery and symbol_error: a cable or transceiver that is about to fail; the others: data that was lost
_RDMA_ERRORS = (
    "counters/link_error_recovery",
    "counters/symbol_error",
    "counters/port_rcv_errors",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/port_xmit_discards",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/packet_seq_err",
    "hw_counters/out_of_sequence",
    "hw_counters/rnr_nak_retry_err",
    "hw_counters/req_cqe_error",
)
_NET_ERRORS = (
    "statistics/rx_errors",
    "statistics/tx_errors",
    "statistics/rx_crc_errors",
    "statistics/tx_carrier_errors",
)


@dataclass(frozen=True)
class PortReading:
    """One port at one moment: its counters as the kernel keeps them."""

    name: str
    kind: PortKind
    up: bool | None = None
    state: str = ""
    rate: str = ""
    sent: int | None = None
    received: int | None = None
    downs: int | None = None
    errors: Mapping[str, int] = field(default_factory=dict)


def read_ports(sysfs: Path = SYSFS) -> tuple[PortReading, ...]:
    """Return the ports that lead out of this node. Raises Unavailable, with NOT_FOUND where there are none."""
    found = tuple(islice((*_rdma(sysfs), *_net(sysfs)), _MOST_PORTS))
    if not found:
        raise Unavailable(Reason.NOT_FOUND, "the kernel shows no network port of this machine's own")
    return found


def _rdma(sysfs: Path) -> Iterator[PortReading]:
    devices = sysfs / "class" / "infiniband"
    for device in _names(devices):
        for number in _names(devices / device / "ports"):
            yield _rdma_port(devices / device / "ports" / number, f"{device}/{number}")


def _rdma_port(path: Path, name: str) -> PortReading:
    number, _, state = (_text(path / "state")).partition(": ")
    physical = _text(path / "phys_state").partition(": ")[2]
    sent, received = (_number(path / "counters" / each) for each in ("port_xmit_data", "port_rcv_data"))
    is_up = None if not state else number == _ACTIVE
    return PortReading(
        name=name,
        kind="roce" if _text(path / "link_layer") == "Ethernet" else "infiniband",
        up=is_up,
        state=f"{state} ({physical})" if physical and not is_up else state,
        rate=_text(path / "rate"),
        sent=None if sent is None else sent * _WORD,
        received=None if received is None else received * _WORD,
        downs=_number(path / "counters" / "link_downed"),
        errors=_errors(path, _RDMA_ERRORS),
    )


def _net(sysfs: Path) -> Iterator[PortReading]:
    """Interfaces with a device behind them; bridges, tunnels and pairs between containers have none."""
    interfaces = sysfs / "class" / "net"
    for name in _names(interfaces):
        path = interfaces / name
        if not (path / "device").exists():
            continue
        carrier = _number(path / "carrier")  # of an interface that is switched off the kernel refuses to tell
        speed = _number(path / "speed")
        yield PortReading(
            name=name,
            kind="ethernet",
            up=None if carrier is None else carrier == 1,
            state=_text(path / "operstate"),
            rate="" if not speed else f"{speed} Mb/s",
            sent=_number(path / "statistics" / "tx_bytes"),
            received=_number(path / "statistics" / "rx_bytes"),
            downs=_number(path / "carrier_down_count"),
            errors=_errors(path, _NET_ERRORS),
        )


def _errors(path: Path, names: tuple[str, ...]) -> dict[str, int]:
    found = {name.rpartition("/")[2]: _number(path / name) for name in names}
    return {name: count for name, count in found.items() if count is not None}


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MOST_ENTRIES)]
    except OSError:
        return []
    return sorted(name for name in names if len(name) <= _MOST_NAME and name.isascii() and name.isprintable())


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) <= _LARGEST else None


def _text(path: Path) -> str:
    """Return the first line of a small file; empty where there is none."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return ""
        text = os.read(opened, _MOST_BYTES).decode("ascii", "replace").partition("\n")[0].strip()
        return text[:64] if text.isprintable() else ""
    except OSError:  # EINVAL: the interface is switched off; EOPNOTSUPP: this port does not count that
        return ""
    finally:
        os.close(opened)
