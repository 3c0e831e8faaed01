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


def test_where_each_has_its_own() -> None:
    """Nothing."""
    assert found(nodes(), EACH) == []


@pytest.mark.parametrize("observer", [0, 1])
def test_a_host_that_takes_no_part(observer: int) -> None:
    """One node saw it: the address, both MAC addresses, and who saw them are named."""
    seen = {**EACH, observer: [*EACH[observer], *saw((3, STRANGER))]}
    (shared,) = found(nodes(), seen)
    assert shared[:5] == (3, "eth0", "10.0.0.3", STRANGER, None)
    assert (observer, STRANGER, "eth0") in shared.evidence and (2, mac(3), "eth0") in shared.evidence


def test_a_host_that_always_answers_first() -> None:
    """To some nodes: the others have seen the right one."""
    seen = {**EACH, 0: saw((1, mac(1)), (3, STRANGER)), 1: saw((0, mac(0)), (3, STRANGER))}
    assert [each[:5] for each in found(nodes(), seen)] == [(3, "eth0", "10.0.0.3", STRANGER, None)]


def test_a_host_that_takes_part() -> None:
    """By its MAC address it is known; it may have an address of its own besides, at which it is seen as well."""
    seen = {**EACH, 0: [*EACH[0], *saw((3, mac(2)))]}
    assert [each[:5] for each in found(nodes(), seen)] == [(3, "eth0", "10.0.0.3", mac(2), 2)]


def test_another_interface_of_the_same_host() -> None:
    """Linux answers for an address on all interfaces of the link, and bonds by the MAC address of any of their own."""
    seen = {**EACH, 0: [*EACH[0], *saw((3, STRANGER))]}
    assert found(nodes(more={3: [STRANGER]}), seen) == []


def test_who_answered_before() -> None:
    """It may have had the address rightly, and be gone; that the node itself answered before shows the link to it."""
    before = AddressSeen("eth0", "10.0.0.3", STRANGER, fresh=False)
    assert found(nodes(), {**EACH, 0: [*EACH[0], before]}) == []
    own = [each._replace(fresh=False) for each in EACH[0]]
    assert [each.mac for each in found(nodes(), {0: [*own, *saw((3, STRANGER))]})] == [STRANGER]


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


def test_a_proxy() -> None:
    """It answers for several nodes, which on their own side of it see each other by their own MAC addresses."""
    seen = {**EACH, 0: saw((1, mac(1)), (2, STRANGER), (3, STRANGER)), 1: saw((0, mac(0)), (3, STRANGER))}
    assert found(nodes(), seen) == []


def test_a_node_behind_a_proxy() -> None:
    """Its own MAC address was never seen: that somebody else has its address is not shown."""
    seen = {node: saw(*((n, mac(n)) for n in range(3) if n != node), (3, STRANGER)) for node in range(3)}
    assert found(nodes(), seen) == []


def test_a_network_that_shows_the_same_for_all() -> None:
    """As some clouds do."""
    seen = {node: saw(*((other, STRANGER) for other in range(2) if other != node)) for node in range(2)}
    assert found(nodes(2), seen) == []


def test_the_same_address_on_another_network() -> None:
    """An interface on which no node was seen by its own leads elsewhere."""
    seen = {**EACH, 0: [*EACH[0], *saw((3, STRANGER), on="eth1")]}
    assert found(nodes(), seen) == []


def test_what_several_nodes_report_is_not_asked_here() -> None:
    """They are named by what they report; local addresses mean another host on each link."""
    both = {**nodes(), 2: Arrival(here=2, addresses={"eth0": "10.0.0.3"}, macs=(mac(2),))}
    assert found(both, {0: [*EACH[0], *saw((3, mac(2)))]}) == []
    local = {node: Arrival(here=node, addresses={"eth0": f"169.254.0.{node}"}, macs=(mac(node),)) for node in range(3)}
    rows = [
        AddressSeen("eth0", "169.254.0.1", mac(1)),
        AddressSeen("eth0", "169.254.0.2", mac(2)),
        AddressSeen("eth0", "169.254.0.2", "x"),
    ]
    assert found(local, {0: rows}) == []


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
