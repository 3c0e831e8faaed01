"""Addresses that lead to another node than they name, and all the ways in which names differ and nothing is wrong."""

import pytest

from collector.gather.wrong_addresses import not_reached
from collector.hostlists import AgentAddress, parse_hostlist
from shared.missing import Reason


def answers(*pairs: tuple[str, str | None]) -> list[tuple[AgentAddress, str | None]]:
    """Pairs of an address, as a host list has it, and the host that answered."""
    return [(parse_hostlist(text)[0], host) for text, host in pairs]


def test_an_address_that_leads_to_a_neighbour_is_told() -> None:
    """The name server has node09's address for node07: nobody has asked node07."""
    found = not_reached(answers(("node07", "node09"), ("node08", "node08"), ("node09", "node09")))
    assert list(found) == ["http://node07:8471"]
    missing = found["http://node07:8471"]
    assert missing.reason is Reason.UNREACHABLE
    assert "leads to 'node09'" in missing.detail
    assert "'node07' was not asked" in missing.detail


@pytest.mark.parametrize(
    "pairs",
    [
        [("node07", "node07"), ("node09", "node09")],
        [("node07.example.org", "node07"), ("node09", "node09.example.org")],
        [("NODE07", "node07"), ("node09", "Node09")],
        [("10.0.0.7", "node09"), ("node09", "node09")],
        [("http://[fd00::7]:8471", "node09"), ("node09", "node09")],
        [("ib-node07", "node07"), ("node07", "node07")],
        [("node07-ib", "node07"), ("node07", "node07")],
        [("alias", "node1"), ("node1", "node1")],
        [("node7", "node07"), ("node07", "node07")],
        [("localhost", "node1"), ("node1", "node1")],
        [("node07", "gpu-7"), ("node09", "gpu-9")],
        [("node07", "node09"), ("node09", "node07")],
        [("node07", "node09"), ("node08", "node10"), ("node09", "node11")],
        [("node07", "node09")],
        [("node07", None), ("node09", "node09")],
        [("node07:8471", "node07"), ("node07:8472", "node07")],
        [("node07", "node09"), ("node07.example.org", "node07"), ("node09", "node09")],
        [],
    ],
)
def test_names_that_differ_without_harm(pairs: list[tuple[str, str | None]]) -> None:
    """Domains, case, numbers, second names, other names throughout, swapped names, one box with two agents."""
    assert not_reached(answers(*pairs)) == {}


def test_the_pods_of_a_node_are_asked_by_address() -> None:
    """Kubernetes names the node and gives the address of a pod: whatever answers there says who it is."""
    pod = AgentAddress(host="node07", url="http://10.1.2.3:8471")
    assert not_reached([(pod, "node09"), *answers(("node09", "node09"))]) == {}


def test_hostile_names_are_told_in_short() -> None:
    """An agent may call itself anything."""
    hostile = "node" + "9" * 50_000
    found = not_reached(answers(("node07", hostile), ("node09", "node09")))
    assert found == {}
