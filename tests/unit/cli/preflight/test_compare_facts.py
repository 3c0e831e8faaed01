"""What nodes say of themselves, side by side."""

from typing import Any

import pytest

from cli.preflight.node_facts import Nic, NodeReport, RdmaPort, read_facts
from cli.preflight.stages.compare_facts import busy_gpus, checks_of, clocks_apart, lacking, same_addresses
from shared.answer.checks import CheckId
from shared.wire.devices import Gpu, GpuProcess, Gpus
from shared.wire.setup import Setup, Versions


def node(number: int, *, gpus: int = 8, **fields: Any) -> NodeReport:
    """Return what a usual node says, with some of it changed."""
    found = fields.pop("gpus_found", (Gpu(index=5, nvlinks_up=18, nvlinks_down=0),))
    data = fields.pop("data", nic())
    fields["nics"] = (nic(name="eth0"), data, nic(name="docker0", link="has no carrier" if number == 2 else ""))
    usual = {"rdma": rdma("400 Gb/sec (4X NDR)"), "setup": Setup(gpus=gpus), "gpus": Gpus(gpus=found)}
    return NodeReport(**{"host": f"n{number}", **usual, **fields})


def nic(**fields: Any) -> Nic:
    """Return an interface that works, with some of it changed."""
    return Nic(**{"name": "eth1", "address": "10.0.0.1", "mtu": 9000, "speed": 25_000, **fields})


def rdma(rate: str) -> tuple[RdmaPort, ...]:
    """Return an active port of an RDMA device."""
    return (RdmaPort(device="mlx5_0", port="1", state="ACTIVE", rate=rate),)


DOWN = (RdmaPort(device="mlx5_0", port="1", state="DOWN"),)


@pytest.mark.parametrize(
    ("odd", "what"),
    [
        (node(2, gpus=7), "7 GPUs there, and 8 on most"),
        (node(2, rdma=DOWN), "mlx5_0/1 is DOWN"),
        (node(2, rdma=rdma("100 Gb/sec (4X EDR)")), "mlx5_0/1 runs at 100 Gb/sec (4X EDR), and at 400 Gb/sec (4X NDR)"),
        (node(2, data=nic(up=False, link="has no carrier")), "interface eth1 (10.0.0.1) has no carrier, and works on"),
        (node(2, data=nic(address="")), "interface eth1 has no address, and one on most nodes"),
        (node(2, data=nic(speed=1000)), "interface eth1 runs at 1000 Mb/s, and at 25000 Mb/s on most nodes"),
        (node(2, gpus_found=(Gpu(index=5, nvlinks_up=17, nvlinks_down=1),)), "GPU 5 has 1 NVLink down"),
    ],
)
def test_who_lacks_what_most_have(odd: NodeReport, what: str) -> None:
    """That node, and no other."""
    ((found, text),) = lacking({0: node(0), 1: node(1), 2: odd, 3: node(3)})
    assert found == 2 and what in text


def test_where_all_differ_nobody_lacks_anything() -> None:
    """Two ports down of four are no minority; neither are counts of GPUs that are all different."""
    nodes = {number: node(number, gpus=number, rdma=DOWN if number < 2 else node(0).rdma) for number in range(4)}
    assert list(lacking(nodes)) == []


def test_nvlinks_that_no_machine_uses() -> None:
    """Links that are down on all are no fault of one; nor are rates that nobody can read, or that differ everywhere."""
    unused = (Gpu(index=0, nvlinks_up=4, nvlinks_down=14),)
    rates = ("", "unknown", "200 Gb/sec (4X HDR)", "100 Gb/sec (4X EDR)")
    nodes = {n: node(n, gpus_found=unused, rdma=rdma(rate)) for n, rate in enumerate(rates)}
    assert list(lacking(nodes)) == []
    faster = {n: node(n, rdma=rdma(f"{400 if n else 800} Gb/sec")) for n in range(4)}
    assert list(lacking(faster)) == []


def test_what_gpus_report() -> None:
    """Faults of a GPU are the node's; a GPU that is used is only said to be."""
    broken = Gpu(index=3, ecc_uncorrected=2, processes=(GpuProcess(pid=77),))
    one = node(0).model_copy(update={"gpus": Gpus(gpus=(Gpu(index=0), broken))})
    assert [text for _, text in lacking({0: one})] == ["GPU 3 has 2 uncorrectable memory errors"]
    assert list(busy_gpus({0: one})) == [(0, "GPU 3 is used by process 77")]


def test_checks_of_the_settings() -> None:
    """The rules of `unhang check`, on nodes; the ranks of the preflight itself count for nothing."""
    own = {"RANK": "7", "WORLD_SIZE": "2", "NCCL_ALGO": "Ring"}
    setups = [
        Setup(variables=own if n == 1 else {}, nccl_loaded=True, versions=Versions(torch="2.9")) for n in range(3)
    ]
    nodes = {n: node(n, setup=setup) for n, setup in enumerate(setups)}
    found = {check.id for check in checks_of(nodes)}
    assert CheckId.SETTINGS_DIFFER in found
    assert not found & {CheckId.RANK_BEYOND_WORLD, CheckId.WORLD_SIZES_DIFFER, CheckId.ONE_PROCESS_OF_MANY}


def test_clocks() -> None:
    """Beside the median; what all have in common is the coordinator's own."""
    ahead = {0: (99.9, 100.0), 1: (100.1, 100.2), 2: (99.8, 99.9), 3: (0.0, 0.1)}
    assert [node for node, _ in clocks_apart(ahead)] == [3]


def test_a_slow_message_says_little_of_a_clock() -> None:
    """A node whose first message took 35 s was called 35 s late."""
    assert list(clocks_apart({0: (0.0, 0.1), 1: (-35.0, 0.1), 2: (-0.1, 0.0)})) == []
    assert list(clocks_apart({0: (0.0, 0.1), 1: (-60.0, -25.0), 2: (0.0, 0.1)})) == [(1, -25.05)]


def test_nodes_with_one_address() -> None:
    """But not where all have the same, as of a bridge of containers."""
    own = {node: {"eth0": f"10.0.0.{node}", "mgmt0": "192.168.122.1"} for node in range(4)}
    assert list(same_addresses(own)) == []
    twice = {**own, 4: {"eth0": "10.0.0.2"}}
    assert list(same_addresses(twice)) == [("eth0", "10.0.0.2", (2, 4))]


def test_this_machine_can_be_read() -> None:
    """Whatever is there, and without a GPU."""
    facts = read_facts({"torch": "2.9", "gpus": 0})
    assert facts.host and facts.nics and facts.setup.versions.torch == "2.9"
    assert NodeReport.model_validate_json(facts.model_dump_json()) == facts
