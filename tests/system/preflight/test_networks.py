"""Faults of a network of eight hosts that are nobody's, or easily called another's: no good node is accused of them.

Run by `make preflight`.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from shared.answer.preflight import NodeState, PreflightKind
from tests.system.e2e.network import Network
from tests.system.preflight.nodes import Ended, Preflight, names, network_of

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


def run(network: Network, directory: Path, *flags: str) -> Ended:
    """Run a preflight, and check what always holds."""
    with Preflight(network, directory, "--trial", "15", "--wait", "60", *flags, deadline=DEADLINE) as preflight:
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
    ended = run(network, tmp_path, "--deadline", "120")
    assert (ended.bad, ended.status) == (set(), 10), ended.said
    (finding,) = ended.report.findings
    assert (finding.kind, finding.hosts) == (PreflightKind.SAME_ADDRESS, ("n03", "n05"))


def test_large_packets_that_are_lost(network: Network, tmp_path: Path) -> None:
    """Connections are made and small messages pass, but nothing that fills a packet: the MTU is named."""
    with network.bad_cable("n05", largest=1000):
        ended = run(network, tmp_path)
    assert (ended.bad, ended.status) == ({"n05"}, 10), ended.said
    assert "MTU" in ended.report.findings[0].hint


@pytest.mark.parametrize("loss", [0.3, 1.0])
def test_loss_in_one_direction(network: Network, tmp_path: Path, loss: float) -> None:
    """Frames to one host are lost; it is named, and no other."""
    with contextlib.ExitStack() as cable:
        cable.enter_context(network.bad_cable("n05", loss=loss, ways="in"))
        ended = run(network, tmp_path)
    assert (ended.bad, ended.status) == ({"n05"}, 10), ended.said
