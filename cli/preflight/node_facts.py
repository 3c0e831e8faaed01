"""What a node says of itself before anything is tried there."""

import os
import platform
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import psutil
from pydantic import Field

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.find.launchers import REPORTED
from agent.sources.gpu import read_gpus
from shared.missing import Missing
from shared.redaction.redact import redact
from shared.value import Value
from shared.wire.devices import Gpus
from shared.wire.setup import Setup, Versions

_INFINIBAND = Path("/sys/class/infiniband")
_MOST = 128
MOST_GREETED = 12
_LONGEST_VALUE = 300
_GPU_SECONDS = 5.0
_NAME_SECONDS = 3.0

NOT_FOR_JOBS = ("lo", "docker", "veth", "cali", "lxc", "virbr", "br-", "cni", "flannel", "tun", "podman")
"""How interfaces are named that lead to no other node."""


class Nic(Value):
    """A network interface."""

    name: str
    address: str = Field(default="", description="Its first IPv4 address, else IPv6; empty where it has none.")
    up: bool = True
    """It is switched on, and has a link."""
    link: str = ""
    """Why it is not up: `is switched off`, `has no carrier`."""
    mtu: int | None = None
    speed: int = Field(default=0, description="Megabits per second; 0: not known.")


class RdmaPort(Value):
    """A port of an RDMA device, as sysfs reports it."""

    device: str
    port: str
    state: str = Field(description="For example `ACTIVE` or `DOWN`.")
    rate: str = ""


class NodeReport(Value):
    """What a node says of itself."""

    host: str
    kernel: str = ""
    time_ns: int = 0
    memory_lock_bytes: int | None = Field(default=None, description="Memory that may be locked; None: unlimited.")
    nics: tuple[Nic, ...] = ()
    name_address: str | None = Field(
        default=None,
        description="What its own host name leads to there, as Gloo takes it; empty: to no address of its own. "
        "None: not known.",
    )
    rdma: tuple[RdmaPort, ...] = ()
    gpus: Gpus | Missing | None = None
    setup: Setup = Setup()

    def address_of(self, interface: str) -> str:
        """Return the address of an interface; empty where there is none."""
        return next((nic.address for nic in self.nics if nic.name == interface and nic.up), "")

    def variable(self, name: str) -> str:
        """Return the value of a variable of this node's environment; empty where it is not set."""
        return self.setup.variables.get(name, "")


def job_addresses() -> dict[str, str]:
    """Return the addresses of the interfaces that jobs may use, by interface; a few, for a short message."""
    usable = (nic for nic in _nics() if nic.up and nic.address and not nic.name.startswith(NOT_FOR_JOBS))
    return {nic.name: nic.address for nic in islice(usable, MOST_GREETED)}


def read_facts(versions: dict[str, object]) -> NodeReport:
    """Read them here; `versions` as the trial runner says them."""
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    variables = {name: redact(value)[:_LONGEST_VALUE] for name, value in os.environ.items() if name in REPORTED}
    nics, rdma = tuple(_nics()), tuple(_rdma_ports())
    gpus = versions.get("gpus")
    return NodeReport(
        host=socket.gethostname(),
        kernel=platform.release(),
        time_ns=time.time_ns(),
        memory_lock_bytes=None if locked == resource.RLIM_INFINITY else locked,
        nics=nics,
        name_address=address_of_own_name(),
        rdma=rdma,
        gpus=_gpus(),
        setup=Setup(
            variables=dict(sorted(variables.items())),
            versions=Versions(**{name: _text(versions.get(name)) for name in ("torch", "cuda", "nccl", "python")}),
            nccl_loaded=versions.get("nccl") is not None,
            interfaces=tuple(nic.name for nic in nics),
            hcas=tuple(sorted({port.device for port in rdma})),
            gpus=gpus if isinstance(gpus, int) else None,
            cpus=len(os.sched_getaffinity(0)),
        ),
    )


def address_of_own_name() -> str | None:
    """Return the address that Gloo takes where no interface is named: the first of this host's name that can be bound.

    Empty where there is none: then Gloo takes the loopback. None: no name server answered in time. As PyTorch does it
    in ProcessGroupGloo.cpp, createDefaultDevice. Debian writes 127.0.1.1 for a host's own name into its /etc/hosts.
    """
    found: list[str] = []
    asking = threading.Thread(target=lambda: found.append(_bindable(socket.gethostname())), daemon=True)
    asking.start()
    asking.join(_NAME_SECONDS)
    return found[0] if found else None


def _bindable(name: str) -> str:
    with suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as own:
                own.bind(address)
                return str(address[0])
    return ""


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:_LONGEST_VALUE]


def _nics() -> Iterator[Nic]:
    stats = psutil.net_if_stats()
    for name, found in sorted(psutil.net_if_addrs().items())[:_MOST]:
        by_family = {each.family: each.address for each in reversed(found)}
        address = by_family.get(socket.AF_INET) or by_family.get(socket.AF_INET6, "").partition("%")[0]
        stat = stats.get(name)
        if stat is None:
            yield Nic(name=name, address=address)
            continue
        on = "up" in stat.flags.split(",")
        why = "" if stat.isup else "has no carrier" if on else "is switched off"
        yield Nic(name=name, address=address, up=stat.isup, link=why, mtu=stat.mtu, speed=max(0, stat.speed))


def _rdma_ports() -> Iterator[RdmaPort]:
    # 4: ACTIVE        200 Gb/sec (4X HDR)
    with suppress(OSError):
        for path in sorted(_INFINIBAND.glob("*/ports/*"))[:_MOST]:
            state = _line(path / "state").rpartition(":")[2].strip()
            yield RdmaPort(device=path.parts[-3], port=path.name, state=state, rate=_line(path / "rate"))


def _line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()[:_LONGEST_VALUE]
    except OSError:
        return ""


def _gpus() -> Gpus | Missing:
    try:
        return read_gpus(Deadline(_GPU_SECONDS))
    except Unavailable as error:
        return Missing(source="gpu", reason=error.reason, detail=str(error))
