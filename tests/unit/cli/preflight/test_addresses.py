"""Addresses that two hosts have, by what other nodes' kernels saw; proxies and routers are none."""

from collections.abc import Mapping, Sequence

import pytest

from cli.preflight.coordinator import Arrival
from cli.preflight.neighbours import AddressSeen, plain_mac
from cli.preflight.stages.addresses import SharedAddress, contested_addresses, shared_addresses

STRANGER = "02:00:00:00:00:99"


def mac(node: int) -> str:
    """Return the MAC address of a node."""
    return f"02:00:00:00:00:0{node}"


def nodes(count: int = 4, *, more: Mapping[int, Sequence[str]] | None = None) -> dict[int, Arrival]:
    """Return nodes with an address each. `more`: further MAC addresses of some."""
    return {
        node: Arrival(
            here=node, addresses={"eth0": f"10.0.0.{node}"}, macs=(mac(node), *dict(more or {}).get(node, ()))
        )
        for node in range(count)
    }


def saw(*rows: tuple[int, str], on: str = "eth0") -> list[AddressSeen]:
    """Return which MAC answered for which node's address."""
    return [AddressSeen(on, f"10.0.0.{node}", found) for node, found in rows]


EACH = {node: saw(*((other, mac(other)) for other in range(4) if other != node)) for node in range(4)}
"""Each node saw all others by their own."""


def found(nodes: Mapping[int, Arrival], seen: dict[int, list[AddressSeen]]) -> list[SharedAddress]:
    """Return what is found, and check that the order of what was seen changes nothing."""
    shared = list(shared_addresses(nodes, seen))
    turned = {node: list(reversed(each)) for node, each in reversed(list(seen.items()))}
    assert {each[:5] for each in shared_addresses(nodes, turned)} == {each[:5] for each in shared}
    return shared


OF_NODE_3 = (3, "eth0", "10.0.0.3", STRANGER, None)
BEFORE = AddressSeen("eth0", "10.0.0.3", STRANGER, fresh=False)
REPORTED_TWICE = {**nodes(), 2: Arrival(here=2, addresses={"eth0": "10.0.0.3"}, macs=(mac(2),))}
LOCAL = {node: Arrival(here=node, addresses={"eth0": f"169.254.0.{node}"}, macs=(mac(node),)) for node in range(3)}
LOCAL_SEEN = [AddressSeen("eth0", f"169.254.0.{node}", by) for node, by in ((1, mac(1)), (2, mac(2)), (2, "x"))]
OWN_BEFORE = [each._replace(fresh=False) for each in EACH[0]]


@pytest.mark.parametrize(
    ("here", "seen", "shared"),
    [
        pytest.param(nodes(), EACH, [], id="each has its own"),
        pytest.param(
            nodes(),
            {**EACH, 0: saw((1, mac(1)), (3, STRANGER)), 1: saw((0, mac(0)), (3, STRANGER))},
            [OF_NODE_3],
            id="a host that always answers first to some; the others have seen the right one",
        ),
        # By its MAC address it is known; it may have an address of its own besides, at which it is seen as well.
        pytest.param(
            nodes(),
            {**EACH, 0: [*EACH[0], *saw((3, mac(2)))]},
            [(3, "eth0", "10.0.0.3", mac(2), 2)],
            id="a host that takes part",
        ),
        # Linux answers for an address on all interfaces of the link, and bonds by the MAC address of any of their own.
        pytest.param(
            nodes(more={3: [STRANGER]}),
            {**EACH, 0: [*EACH[0], *saw((3, STRANGER))]},
            [],
            id="another interface of the same host",
        ),
        pytest.param(nodes(), {**EACH, 0: [*EACH[0], BEFORE]}, [], id="it had the address before, perhaps rightly"),
        pytest.param(nodes(), {0: [*OWN_BEFORE, *saw((3, STRANGER))]}, [OF_NODE_3], id="the node answered before"),
        # It answers for several nodes, which on their own side of it see each other by their own MAC addresses.
        pytest.param(
            nodes(),
            {**EACH, 0: saw((1, mac(1)), (2, STRANGER), (3, STRANGER)), 1: saw((0, mac(0)), (3, STRANGER))},
            [],
            id="a proxy",
        ),
        pytest.param(
            nodes(),
            {node: saw(*((n, mac(n)) for n in range(3) if n != node), (3, STRANGER)) for node in range(3)},
            [],
            id="a node behind a proxy, whose own was never seen",
        ),
        pytest.param(
            nodes(2),
            {node: saw(*((other, STRANGER) for other in range(2) if other != node)) for node in range(2)},
            [],
            id="a network that shows the same for all, as some clouds do",
        ),
        pytest.param(
            nodes(),
            {**EACH, 0: [*EACH[0], *saw((3, STRANGER), on="eth1")]},
            [],
            id="an interface on which no node was seen by its own",
        ),
        pytest.param(REPORTED_TWICE, {0: [*EACH[0], *saw((3, mac(2)))]}, [], id="several nodes report it"),
        pytest.param(LOCAL, {0: LOCAL_SEEN}, [], id="local addresses mean another host on each link"),
    ],
)
def test_who_shares_an_address(
    here: dict[int, Arrival], seen: dict[int, list[AddressSeen]], shared: list[tuple[object, ...]]
) -> None:
    """A host that answers for a node's address as well as the node itself, and nobody else."""
    assert [each[:5] for each in found(here, seen)] == shared


@pytest.mark.parametrize("observer", [0, 1])
def test_a_host_that_takes_no_part(observer: int) -> None:
    """One node saw it: the address, both MAC addresses, and who saw them are named."""
    (shared,) = found(nodes(), {**EACH, observer: [*EACH[observer], *saw((3, STRANGER))]})
    assert shared[:5] == OF_NODE_3
    assert (observer, STRANGER, "eth0") in shared.evidence and (2, mac(3), "eth0") in shared.evidence


def test_an_address_that_no_node_has_reported() -> None:
    """One node saw two hosts answer for it; routers that stand in for one another are no such hosts."""
    spare = "02:00:00:00:00:98"
    here = {node: each for node, each in nodes().items() if node != 3}
    seen = {0: saw((1, mac(1)), (3, STRANGER), (3, spare)), 1: saw((0, mac(0)), (3, STRANGER))}
    (contested,) = contested_addresses(here, seen)
    assert contested[:2] == ("10.0.0.3", (spare, STRANGER))
    routers = {0: saw((1, mac(1)), (3, STRANGER), (3, "00:00:5e:00:01:07"))}
    elsewhere = {0: saw((3, STRANGER), (3, spare))}
    assert [*contested_addresses(here, routers), *contested_addresses(here, elsewhere)] == []


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("AA:bb:cc:dd:ee:0F", "aa:bb:cc:dd:ee:0f"),
        # 80:00:02:08:fe:80:00:00:00:00:00:00:7c:fe:90:03:00:29:26:1a, of an IPoIB interface
        ("80:00:02:08:fe:80:00:00:00:00:00:00:7c:fe:90:03:00:29:26:1a", "7c:fe:90:03:00:29:26:1a"),
        ("00:00:00:00:00:00", ""),
        ("", ""),
    ],
)
def test_mac_addresses_as_they_are_compared(text: str, plain: str) -> None:
    """Of IPoIB, by the port: the first bytes are of the connection."""
    assert plain_mac(text) == plain
