"""The stages on nodes of which the truth is known: whom they accuse, of what, and what they advise.

Outcomes of trials are made here, so that nodes can have GPUs, and faults that nobody can make on a machine without.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from cli.preflight.board import Board, Limits
from cli.preflight.conclude import conclude
from cli.preflight.conduct import Outcome, TrialPlan
from cli.preflight.coordinator import Hello
from cli.preflight.node_facts import Nic, NodeReport
from cli.preflight.stages.alone import compare, try_devices, try_nodes
from cli.preflight.stages.together import measure, try_all
from shared.answer.preflight import PreflightKind, PreflightReport, Soundness
from shared.wire.setup import Setup

GPUS = (0, 1, 2, 3)


@dataclass
class KnownNode:
    """In the place of a connection to a node."""

    hello: Hello
    lost: str = ""
    address: str = "10.0.0.1"
    host: str = "n"


class KnownBoard(Board):
    """A board on which trials end as `passes` says: a bandwidth in bytes per second, or 0 where they fail."""

    passes: Callable[[TrialPlan], float]

    async def try_out(self, plan: TrialPlan) -> Outcome | None:
        speed = self.passes(plan)
        outcome = Outcome(plan, speed > 0, {} if speed else {plan.members[0]: "no"}, speed or None)
        self.outcomes.append(outcome)
        return outcome


def board(passes: Callable[[TrialPlan], float], *, nodes: int = 8, **variables: str) -> KnownBoard:
    """Return a board of nodes with four GPUs, two interfaces each, and the same variables on node 2 alone."""
    links: dict[int, Any] = {}
    for node in range(nodes):
        nics = (Nic(name="eth0", address=f"10.0.0.{node}"), Nic(name="ib0", address=f"10.1.0.{node}"))
        setup = Setup(gpus=4, variables=variables if node == 2 else {})
        links[node] = KnownNode(
            Hello(node=node, nodes=nodes, gpus=4, facts=NodeReport(host=f"n{node}", nics=nics, setup=setup))
        )
    known = KnownBoard([f"n{node}" for node in range(nodes)], links, Limits(), lambda _: None, backend="nccl")
    known.gpus = dict.fromkeys(range(nodes), GPUS)
    known.passes = passes
    return known


async def run(known: KnownBoard) -> PreflightReport:
    """Run all stages that need no socket, and conclude."""
    compare(known)
    await try_devices(known)
    await try_nodes(known)
    await try_all(known)
    return conclude(known, await measure(known))


def bad_nodes(*bad: int) -> Callable[[TrialPlan], float]:
    """Trials of several nodes fail where one of these takes part."""
    return lambda plan: 0.0 if len(plan.members) > 1 and set(bad) & set(plan.members) else 1e9


async def test_all_work() -> None:
    """Nothing is found."""
    report = await run(board(lambda plan: 1e9))
    assert (report.verdict, report.findings) == (Soundness.SOUND, ())
    assert report.median_bytes_per_second == 1e9


@pytest.mark.parametrize(
    ("unable", "kind", "verdict"),
    [
        ({2}, PreflightKind.NODE_FAILS_ALONE, Soundness.BAD_NODES),
        (set(range(4)), PreflightKind.NOT_TOLD_APART, Soundness.CANNOT_TELL),
        (set(range(8)), PreflightKind.NOT_TOLD_APART, Soundness.CANNOT_TELL),
    ],
)
async def test_a_python_without_pytorch_is_no_fault_of_the_nodes(
    unable: set[int], kind: PreflightKind, verdict: Soundness
) -> None:
    """Unless most have it where a few do not."""
    known = board(lambda plan: 1e9)
    for node in unable:
        known.links[node].hello = known.links[node].hello.model_copy(update={"failed": "python cannot import PyTorch"})
    report = await run(known)
    assert report.verdict is verdict
    assert {(each.kind, "--python" in each.hint) for each in report.findings} == {(kind, True)}
    assert bool(report.drain) is (verdict is Soundness.BAD_NODES)


@pytest.mark.parametrize(("switch", "advice"), [("NCCL_P2P_DISABLE", "ACS"), ("NCCL_SHM_DISABLE", "/dev/shm")])
async def test_gpus_of_a_node_that_do_not_reach_each_other(switch: str, advice: str) -> None:
    """P2P and shared memory are told apart: what helps when it is switched off is at fault."""

    def passes(plan: TrialPlan) -> float:
        alone = plan.members == (3,) and plan.kind == "collective"
        return 0.0 if alone and switch not in plan.variables else 1e9

    report = await run(board(passes))
    (finding,) = report.findings
    assert (finding.kind, finding.hosts) == (PreflightKind.NODE_FAILS_ALONE, ("n3",))
    assert switch in finding.hint and advice in finding.hint


async def test_nccl_on_nodes_of_one_gpu_each() -> None:
    """It is tried there, too: a node on which NCCL does not start fails alone, and the wrong setting is named."""
    variables = {"NCCL_SOCKET_IFNAME": "nonesuch0"}

    def passes(plan: TrialPlan) -> float:
        return 0.0 if 2 in plan.members and plan.kind == "collective" and plan.interface != "ib0" else 1e9

    known = board(passes, **variables)
    known.gpus = dict.fromkeys(range(8), (0,))
    report = await run(known)
    (finding,) = report.findings
    assert (finding.kind, finding.hosts) == (PreflightKind.NODE_FAILS_ALONE, ("n2",))
    assert "correct NCCL_SOCKET_IFNAME, which is nonesuch0 there" in finding.hint
    assert not any("NCCL_P2P_DISABLE" in each.plan.variables for each in known.outcomes)


@pytest.mark.parametrize(("address", "leads"), [("127.0.1.1", "n2 leads to 127.0.1.1"), ("", "no address of its own")])
async def test_a_host_name_that_leads_to_the_loopback(address: str, leads: str) -> None:
    """Gloo takes that address where no interface is named; the hint says so, and where to look."""
    known = board(lambda plan: 0.0 if len(plan.members) > 1 and 2 in plan.members and not plan.interface else 1e9)
    known.backend = "gloo"
    tell_name(known, {2: address})
    (finding,) = (await run(known)).findings
    assert (finding.hosts, finding.path) == (("n2",), "GLOO_SOCKET_IFNAME is not set")
    assert leads in finding.hint and "/etc/hosts" in finding.hint


async def test_host_names_matter_to_gloo_alone() -> None:
    """Under NCCL they are no fault, and it is said what was not tried; nor where an interface is named."""
    known = board(lambda plan: 1e9, GLOO_SOCKET_IFNAME="eth0")
    tell_name(known, {2: "127.0.1.1", 5: "127.0.1.1", 6: "10.0.0.6"})
    report = await run(known)
    assert (report.verdict, report.findings) == (Soundness.SOUND, ())
    (line,) = [line for line in report.untested if "Gloo" in line]
    assert "n5 lead" in line


def tell_name(known: KnownBoard, addresses: dict[int, str]) -> None:
    """Let the host names of these nodes lead there."""
    for node, address in addresses.items():
        hello = known.links[node].hello
        facts = hello.facts.model_copy(update={"name_address": address})
        known.links[node].hello = hello.model_copy(update={"facts": facts})


async def test_a_gpu_that_computes_wrongly() -> None:
    """The node is bad, and takes no part in what follows."""
    known = board(lambda plan: 0.0 if plan.kind == "device" and plan.members == (5,) else 1e9)
    report = await run(known)
    assert [(each.kind, each.hosts) for each in report.findings] == [(PreflightKind.NODE_FAILS_ALONE, ("n5",))]
    assert not any(5 in each.plan.members for each in known.outcomes if len(each.plan.members) > 1)


async def test_most_fail_alone() -> None:
    """Then it is more likely what they share: none of them is accused."""
    report = await run(board(lambda plan: 0.0 if plan.kind == "device" and plan.members[0] < 5 else 1e9))
    assert report.findings[0].kind is PreflightKind.NOT_TOLD_APART
    assert report.verdict is Soundness.CANNOT_TELL


async def test_one_gpu_of_a_bad_node() -> None:
    """Tried by GPU, only one of four fails with a node that works."""

    def passes(plan: TrialPlan) -> float:
        several = len(plan.members) > 1 and 2 in plan.members
        return 0.0 if several and 3 in plan.gpus[2] else 1e9

    (finding,) = (await run(board(passes))).findings
    assert (finding.kind, finding.hosts, finding.path) == (PreflightKind.NODE_FAILS, ("n2",), "GPU 3")


@pytest.mark.parametrize(
    ("variables", "path"),
    [({"NCCL_SOCKET_IFNAME": "lo"}, "NCCL_SOCKET_IFNAME=lo"), ({}, "NCCL_SOCKET_IFNAME is not set")],
)
async def test_a_wrong_interface(variables: dict[str, str], path: str) -> None:
    """The node works as soon as the right one is named."""

    def passes(plan: TrialPlan) -> float:
        return 0.0 if len(plan.members) > 1 and 2 in plan.members and plan.interface != "ib0" else 1e9

    (finding,) = (await run(board(passes, **variables))).findings
    assert (finding.hosts, finding.path) == (("n2",), path)
    assert "NCCL_SOCKET_IFNAME=ib0" in finding.hint


async def test_nothing_works_until_an_interface_is_named() -> None:
    """No node is accused: it is said what to set for all of them."""
    report = await run(board(lambda plan: 1e9 if len(plan.members) == 1 or plan.interface == "eth0" else 0.0))
    (finding,) = report.findings
    assert (report.verdict, finding.kind) == (Soundness.CANNOT_TELL, PreflightKind.NOT_TOLD_APART)
    assert "NCCL_SOCKET_IFNAME=eth0" in finding.hint


@pytest.mark.parametrize("bad", [{1}, {0, 1}, {0, 3, 6}, {5, 6, 7}])
async def test_bad_nodes(bad: set[int]) -> None:
    """They are named, all others are good."""
    report = await run(board(bad_nodes(*bad)))
    assert {host for each in report.findings for host in each.hosts} == {f"n{node}" for node in bad}
    assert sum(node.state == "good" for node in report.nodes) == 8 - len(bad)


async def test_a_slow_node_and_a_slow_link() -> None:
    """Beside the median of all pairs; one slow pair alone is a link."""

    def passes(plan: TrialPlan) -> float:
        slow = len(plan.members) == 2 and (6 in plan.members or set(plan.members) == {0, 1})
        return 1e8 if slow else 1e9

    report = await run(board(passes))
    found = {(each.kind, each.hosts) for each in report.findings}
    assert found == {(PreflightKind.NODE_SLOW, ("n6",)), (PreflightKind.LINK_SLOW, ("n0", "n1"))}


async def test_a_node_that_is_lost() -> None:
    """It stopped answering: its trials fail at once, and it is named once."""
    known = board(lambda plan: 1e9)
    known.links[4].lost = "it stopped answering the coordinator"
    report = await run(known)
    assert [(each.kind, each.hosts) for each in report.findings] == [(PreflightKind.NODE_LOST, ("n4",))]


async def test_nodes_that_a_bad_coordinator_lost() -> None:
    """All messages go through the first node: where that is bad, silence of others accuses nobody."""
    known = board(bad_nodes(0))
    known.links[4].lost = "it stopped answering the coordinator"
    report = await run(known)
    found = {(each.kind, each.hosts) for each in report.findings}
    assert found == {(PreflightKind.NODE_FAILS, ("n0",)), (PreflightKind.NOT_TOLD_APART, ("n4",))}


async def test_one_node_that_sees_fewer_gpus() -> None:
    """It differs, and is bad for that; trials go on with it."""
    known = board(lambda plan: 1e9)
    link = known.links[1]
    facts = link.hello.facts.model_copy(update={"setup": Setup(gpus=3)})
    link.hello = link.hello.model_copy(update={"facts": facts})
    report = await run(known)
    assert [(each.kind, each.hosts) for each in report.findings] == [(PreflightKind.NODE_DIFFERS, ("n1",))]


@pytest.mark.parametrize(
    ("without", "kind", "verdict"),
    [
        ({1}, PreflightKind.NODE_DIFFERS, Soundness.BAD_NODES),
        (set(range(4)), PreflightKind.NOT_TOLD_APART, Soundness.CANNOT_TELL),
        (set(range(8)), PreflightKind.NOT_TOLD_APART, Soundness.CANNOT_TELL),
    ],
)
async def test_nodes_without_gpus_under_nccl(without: set[int], kind: PreflightKind, verdict: Soundness) -> None:
    """NCCL needs them; a node is accused of it where most have some, and else nobody is. No trial is made there."""
    known = board(lambda plan: 1e9)
    for node in without:
        known.gpus.pop(node)
    report = await run(known)
    assert (report.verdict, {each.kind for each in report.findings}) == (verdict, {kind})
    assert {host for each in report.findings for host in each.hosts} == {f"n{node}" for node in without}
    assert not any(without & set(each.plan.members) for each in known.outcomes)


async def test_no_time_is_left() -> None:
    """Nothing is tried, and no node is called good."""
    known = board(lambda plan: 1e9)
    known.limits = replace(known.limits, deadline_seconds=1.0)
    known.try_out = _none  # type: ignore[method-assign]
    known.late = True
    report = await run(known)
    assert report.verdict is Soundness.CANNOT_TELL and report.findings == ()


async def _none(plan: TrialPlan) -> None:
    return None
