"""What can be wrong with six hosts that have a management network (eth0) and a data network (eth1), and with whom.

Each fault is made on the machine: a cable, a rule of the kernel, a control group, a file.
"""

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.e2e.network import Network

Made = Callable[[Network], AbstractContextManager[object]]
_CPU = Path("/sys/fs/cgroup/cpu")


@dataclass(frozen=True)
class Fault:
    """One fault, or two at once."""

    name: str
    make: Made
    bad: frozenset[str] = frozenset()
    """The nodes to be called bad, and no others."""
    links: frozenset[tuple[str, ...]] = frozenset()
    """The links that are."""
    words: tuple[str, ...] = ()
    """What findings say, in their text, evidence or hints."""
    on: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Variables of some hosts."""


def fault(name: str, make: Made, *bad: str, words: Iterable[str] = (), link: tuple[str, ...] = ()) -> Fault:
    """Return one fault."""
    return Fault(name, make, frozenset(bad), frozenset({link} if link else ()), tuple(words))


@contextmanager
def rules(network: Network, name: str, *lines: str) -> Iterator[None]:
    """Rules of routing on a host, where those of the kernel come after them."""
    network.hosts[name].ip("rule add pref 100 lookup local", "rule del pref 0", *(f"rule add {line}" for line in lines))
    yield


def cable(name: str, nic: str = "eth1", **what: float | str) -> Made:
    """A bad cable."""
    return lambda network: network.bad_cable(name, nic, **what)  # type: ignore[arg-type]


def dropped(name: str, first: int, last: int, nic: str = "eth1") -> Made:
    """A host that drops what comes to a range of ports."""
    rule = f"pref 1 iif {nic} ipproto tcp dport {first}-{last} blackhole"
    return lambda network: rules(network, name, rule)


def dead_link(one: str, other: str) -> Made:
    """Two hosts between which nothing passes on the data network."""
    return lambda network: rules(network, one, f"pref 1 to {network.data[other]}/32 blackhole")


def ip(name: str, *lines: str) -> Made:
    """Lines of ip(8) on a host."""

    @contextmanager
    def make(network: Network) -> Iterator[None]:
        network.hosts[name].ip(*lines)
        yield

    return make


@contextmanager
def stopped(network: Network, name: str) -> Iterator[None]:
    """A host that is down: nothing answers there."""
    with network.unplugged(name), network.unplugged(name, "eth1"):
        yield


def throttled(name: str, share: float) -> Made:
    """A host whose processes may use that share of one CPU."""

    @contextmanager
    def make(network: Network) -> Iterator[None]:
        group = _CPU / f"unhang-{name}"
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text(str(int(100_000 * share)))
        (group / "cgroup.procs").write_text(str(network.hosts[name].pid))
        for pid in (line.split()[0] for line in _pids_in(network, name)):
            (group / "cgroup.procs").write_text(pid)
        try:
            yield
        finally:
            until = time.monotonic() + 20
            while group.exists() and time.monotonic() < until:
                for pid in (group / "cgroup.procs").read_text().split():
                    with suppress(OSError):  # it has ended
                        (_CPU / "cgroup.procs").write_text(pid)
                with suppress(OSError):
                    group.rmdir()
                time.sleep(0.1)

    return make


def _pids_in(network: Network, name: str) -> list[str]:
    command = ("pgrep", "--ns", str(network.hosts[name].pid), "--nslist", "pid")
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def both(*makes: Made) -> Made:
    """Several faults at once."""

    @contextmanager
    def make(network: Network) -> Iterator[None]:
        with ExitStack() as stack:
            for each in makes:
                stack.enter_context(each(network))
            yield

    return make


HALF = (32_768, 46_883)
"""Of the ports that Linux gives out."""

FAULTS = (
    fault("none", both()),
    fault("data link down at its far end", lambda n: n.unplugged("n3", "eth1"), "n3", words=("eth1", "no carrier")),
    fault("data interface switched off", ip("n3", "link set eth1 down"), "n3", words=("eth1", "switched off")),
    fault("data interface without an address", ip("n3", "address flush dev eth1"), "n3", words=("eth1", "no address")),
    fault("packets over 1,000 bytes lost (data)", cable("n3", largest=1000), "n3", words=("eth1", "full packets")),
    fault("packets over 1,000 bytes lost (both)", both(cable("n3", largest=1000), cable("n3", "eth0", largest=1000)),
          "n3", words=("did not report",)),
    fault("30 % loss (data)", cable("n3", loss=0.3), "n3", words=("eth1", "are lost")),
    fault("5 % loss (data)", cable("n3", loss=0.05), "n3", words=("eth1", "are lost")),
    fault("1 % loss (data)", cable("n3", loss=0.01), "n3", words=("eth1", "are lost")),
    fault("5 % loss towards it (data)", cable("n3", loss=0.05, ways="in"), "n3", words=("eth1", "are lost")),
    fault("30 % loss (management)", cable("n3", "eth0", loss=0.3), "n3", words=("eth0", "are lost")),
    fault("5 % loss, first node", cable("n0", loss=0.05), "n0", words=("eth1", "are lost")),
    fault("nothing arrives on data", cable("n3", loss=1.0, ways="in"), "n3", words=("eth1", "neither")),
    fault("half of the ports dropped (data)", dropped("n3", *HALF), "n3", words=("eth1", "ports", "no answer")),
    fault("all ports above 1,024 dropped", dropped("n3", 1024, 65_534), "n3", words=("eth1", "nor is reached")),
    fault("MASTER_PORT dropped", dropped("n3", 29_500, 29_500), "n3", words=("port 29500",)),
    fault("dead link (data)", dead_link("n1", "n4"), link=("n1", "n4"), words=("eth1", "do not work together")),
    fault("dead link, adjacent", dead_link("n2", "n3"), link=("n2", "n3"), words=("eth1", "do not work together")),
    fault("host down", lambda n: stopped(n, "n3"), "n3", words=("ssh:",)),
    fault("5 % of a CPU", throttled("n3", 0.05), "n3", words=("multiplies", "0.05 CPUs")),
    fault("0.1 s of delay each way (data)", cable("n3", delay_seconds=0.1), "n3", words=("slow",)),
    fault("no way back (data)", ip("n3", "route del 10.77.4.0/24 dev eth1"), "n3", words=("eth1",)),
    fault("loss on one, dead link of others", both(cable("n5", loss=0.05), dead_link("n1", "n4")),
          "n5", link=("n1", "n4"), words=("are lost", "do not work together")),
    fault("MTU on one, ports on another", both(cable("n5", largest=1000), dropped("n2", *HALF)),
          "n2", "n5", words=("full packets", "ports")),
    fault("link down on one, loss on another", both(lambda n: n.unplugged("n4", "eth1"), cable("n1", loss=0.05)),
          "n1", "n4", words=("no carrier", "are lost")),
    fault("host down, and MTU on another", both(lambda n: stopped(n, "n3"), cable("n1", largest=1000)),
          "n1", "n3", words=("full packets",)),
    fault("loss on two", both(cable("n1", loss=0.05), cable("n4", loss=0.05)), "n1", "n4", words=("are lost",)),
    fault("slow CPU on one, link down on another", both(throttled("n2", 0.05), lambda n: n.unplugged("n4", "eth1")),
          "n2", "n4", words=("multiplies", "no carrier")),
)  # fmt: skip
