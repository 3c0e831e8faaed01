"""Faults of a network of eight hosts that are nobody's, or easily called another's: no good node is accused of them.

Run by `make preflight`.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from shared.answer.preflight import NodeState, PreflightKind
from tests.system.e2e.network import Network
from tests.system.preflight.nodes import Ended, Preflight, names, network_of, talking

pytestmark = [pytest.mark.bench, pytest.mark.root, pytest.mark.timeout(900)]

HOSTS = names(8)
DEADLINE = 300.0


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Eight hosts, new for each test."""
    with network_of(HOSTS, tmp_path) as network:
        yield network


def divide(network: Network, *sides: Sequence[str]) -> None:
    """Let nothing pass between the sides but what the coordinator needs, as where it has a network of its own."""
    for side in sides:
        others = [network.addresses[name] for other in sides if other is not side for name in other]
        for name in side:
            network.hosts[name].ip(
                "rule add pref 1 lookup local",
                "rule del pref 0",
                "rule add pref 2 ipproto tcp dport 8473 lookup main",
                "rule add pref 3 ipproto tcp sport 8473 lookup main",
                *(f"rule add pref 10 to {address}/32 blackhole" for address in others),
            )


def run(network: Network, directory: Path, *flags: str, on: Mapping[str, Mapping[str, str]] | None = None) -> Ended:
    """Run a preflight, and check what always holds. `on`: variables of some hosts."""
    with Preflight(network, directory, "--trial", "15", "--wait", "60", *flags, on=on, deadline=DEADLINE) as preflight:
        ended = preflight.wait()
        assert preflight.left_behind(ended=preflight.guests) == []
    assert ended.report.took_seconds <= DEADLINE, ended.said
    assert ended.report.hosts(NodeState.UNKNOWN) == (), ended.said
    return ended


@pytest.mark.parametrize("side", [("n04", "n05", "n06", "n07"), ("n03", "n06"), ("n01", "n03", "n05")])
def test_a_divided_network(network: Network, tmp_path: Path, side: tuple[str, ...]) -> None:
    """Both sides are named, and no node of either is called bad; the larger one, or the first, goes on."""
    rest = tuple(name for name in HOSTS if name not in side)
    divide(network, rest, side)
    ended = run(network, tmp_path)
    assert (ended.bad, ended.status) == (set(), 10), ended.said
    (finding,) = ended.report.findings
    assert (finding.kind, finding.sides) == (PreflightKind.NETWORK_DIVIDED, (rest, side))
    assert ended.report.hosts(NodeState.GOOD) == rest


def test_two_hosts_with_one_address(network: Network, tmp_path: Path) -> None:
    """Nothing shows which of them is wrong, so both are left out, and neither is called bad."""
    own, taken = network.addresses["n05"], network.addresses["n03"]
    network.hosts["n05"].ip(f"address del {own}/24 dev eth0", f"address add {taken}/24 dev eth0")
    ended = run(network, tmp_path, "--deadline", "100")
    assert (ended.bad, ended.status) == (set(), 10), ended.said
    (finding,) = ended.report.findings
    assert finding.kind is PreflightKind.SAME_ADDRESS
    assert finding.hosts in {("n03", "n05"), ("n03", "node 5"), ("node 3", "n05")}, "one of them may never report"


def test_a_host_of_nobody_with_the_address_of_a_node(network: Network, tmp_path: Path) -> None:
    """It takes no part: its MAC address is named, and the node is not called bad."""
    taken = network.addresses["n03"]
    network.switch.ip(f"address add {taken}/24 dev lan")
    shown = subprocess.check_output(network.switch.on_network("ip", "-br", "link", "show", "lan"), text=True)
    others = [address for name, address in network.addresses.items() if name != "n03"]
    with talking(network.switch, others, tmp_path):
        ended = run(network, tmp_path, "--deadline", "200")
    assert (ended.bad, ended.status) == (set(), 10), ended.said
    (finding,) = ended.report.findings
    assert finding.kind is PreflightKind.SAME_ADDRESS, ended.said
    assert finding.hosts in {("n03",), ("node 3",)}, "it may never report"
    assert shown.split()[2] in finding.text, finding


def test_a_cable_that_is_pulled(network: Network, tmp_path: Path) -> None:
    """After the host has reported."""
    with Preflight(network, tmp_path, "--trial", "15", "--wait", "60", deadline=DEADLINE) as preflight:
        preflight.wait_for("waiting for nodes: passed")
        with network.unplugged("n05"):
            ended = preflight.wait()
            assert ended.bad == {"n05"}, ended.said
            assert ended.report.hosts(NodeState.UNKNOWN) == ()


@contextmanager
def stopping(preflight: Preflight, name: str) -> Iterator[None]:
    """A host whose ranks are stopped as soon as they run."""
    ended = threading.Event()

    def stop() -> None:
        while not ended.is_set():
            with suppress(psutil.Error, OSError):
                for runner in psutil.Process(preflight.guests[name].pid).children():
                    for rank in runner.children(recursive=True):
                        os.kill(rank.pid, signal.SIGSTOP)
            time.sleep(0.01)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_ranks_that_stop(network: Network, tmp_path: Path) -> None:
    """A host on which every rank is stopped: trials hang, and unhang says of one why."""
    with (
        Preflight(network, tmp_path, "--trial", "15", "--wait", "60", deadline=DEADLINE) as preflight,
        stopping(preflight, "n06"),
    ):
        ended = preflight.wait()
        assert (ended.bad, ended.status) == ({"n06"}, 10), ended.said
        assert ended.report.hosts(NodeState.UNKNOWN) == ()


def name_at_loopback(network: Network, directory: Path, *named: str) -> None:
    """Write the /etc/hosts of hosts as Debian's installer does: their own names lead to 127.0.1.1 on them."""
    for name in named:
        others = (f"{address} {other}" for other, address in network.addresses.items() if other != name)
        own = directory / f"hosts-of-{name}"
        own.write_text("\n".join(("127.0.0.1 localhost", f"127.0.1.1 {name}", *others, "")))
        subprocess.run(network.hosts[name].inside("mount", "--bind", str(own), "/etc/hosts"), check=True)


def test_host_names_that_lead_to_the_loopback(network: Network, tmp_path: Path) -> None:
    """Of all hosts: Gloo works nowhere. Nobody is accused, and the setting that helps is named, with the reason."""
    name_at_loopback(network, tmp_path, *HOSTS)
    with Preflight(network, tmp_path, "--trial", "15", "--wait", "60", deadline=DEADLINE) as preflight:
        ended = preflight.wait()
        assert preflight.left_behind(ended=preflight.guests) == []
    assert (ended.bad, ended.status) == (set(), 12), ended.said
    (finding,) = ended.report.findings
    assert finding.kind is PreflightKind.NOT_TOLD_APART
    assert "GLOO_SOCKET_IFNAME=eth0" in finding.hint and "n00 leads to 127.0.1.1" in finding.hint


def test_two_host_names_that_lead_to_the_loopback(network: Network, tmp_path: Path) -> None:
    """Those two do not work together, as 127.0.1.1 is each one's own; neither is bad, and the setting is named."""
    name_at_loopback(network, tmp_path, "n02", "n05")
    ended = run(network, tmp_path)
    assert (ended.bad, ended.status) == (set(), 10), ended.said
    (finding,) = ended.report.findings
    assert (finding.kind, finding.hosts) == (PreflightKind.LINK_FAILS, ("n02", "n05"))
    assert finding.path == "GLOO_SOCKET_IFNAME is not set" and "127.0.1.1" in finding.hint


@pytest.mark.needs("cc")
def test_clocks_that_differ(network: Network, tmp_path: Path) -> None:
    """Of the first host by an hour, of another by two minutes: both are told, and nobody is bad for it."""
    library = tmp_path / "clock_ahead.so"
    source = Path(__file__).with_name("clock_ahead.c")
    subprocess.run(("cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"), check=True)
    on = {
        name: {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(seconds)}
        for name, seconds in {"n00": -3600, "n05": 120}.items()
    }
    ended = run(network, tmp_path, on=on)
    assert (ended.bad, ended.status) == (set(), 0), ended.said
    found = [(each.kind, each.hosts, each.text.rpartition(" by ")[2]) for each in ended.report.findings]
    differs = PreflightKind.CLOCK_DIFFERS
    assert found == [(differs, ("n00",), "-3600 s"), (differs, ("n05",), "+120 s")]
