"""Nodes with one another: all of them, the search for those that fail, bandwidth, and a closer look at the bad ones."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from statistics import median_high

from cli.preflight.board import Board
from cli.preflight.conduct import Outcome
from cli.preflight.search.proof import Members, Proof, Tried, at_scale
from cli.preflight.search.rounds import Breadth
from cli.preflight.stages.searching import search
from cli.preflight.stages.settings import interface_variable, setting_at_fault, why_another
from cli.preflight.stages.tcp import shared_interfaces
from shared.answer.preflight import PreflightKind

_MOST_CLOSER = 8
"""Bad nodes that are tried by interface and by GPU."""

_LEAST_SHARE = 0.05
_LEAST_PAIRS = 2
"""One pair cannot be slower than the others."""


async def try_all(board: Board) -> None:
    """All nodes together, and where that fails, the search for the bad ones."""
    nodes = board.members_without_bad_links
    with board.stage("all nodes together") as stage:
        if len(nodes) < 2:
            stage.outcome, stage.text = "skipped", _too_few(board)
            board.together = frozenset(nodes)
            return
        stage.trials = 1
        whole = await board.try_out(board.plan(nodes))
        stage.outcome = "skipped" if whole is None else "passed" if whole.passed else "failed"
        if whole is not None and whole.passed:
            board.together = frozenset(nodes)
            return
        stage.text = "" if whole is None else whole.why
    with board.stage("the search for bad nodes") as stage:
        tried = [] if whole is None else [Tried(nodes, False)]
        grades = Grades(board)
        proof = await search(board, nodes, tried, grades.attempt, stage=stage)
        rest = proof.without_bad_links()
        board.together = frozenset(rest) if proof.is_proved(rest) else frozenset()
        await _accuse_all(board, proof, grades)
        stage.outcome = "passed" if len(rest) == len(nodes) and board.together else "failed"
        stage.text = f"{len(rest)} of {len(nodes)} nodes work together" if board.together else "not all could be judged"


async def measure(board: Board) -> float | None:
    """Bandwidth in pairs, beside the median of all pairs; return that."""
    nodes = sorted(board.together)
    with board.stage("bandwidth of pairs") as stage:
        if len(nodes) < 2:
            stage.outcome, stage.text = "skipped", _too_few(board)
            return None
        grades = Grades(board)
        proof = await search(board, nodes, [], grades.attempt, stage=stage, breadth=Breadth.NEAR_PAIRS)
        await _accuse_all(board, proof, grades)
        if proof.bad or proof.unsteady or proof.bad_links or proof.unknown:
            stage.outcome = "failed"
        if grades.median is None:
            stage.text = "too few pairs to compare"
        else:
            stage.text = f"median {in_words(grades.median)}"
        return grades.median


class Grades:
    """Pairs, and which of them work: they pass, and are not much slower than the median of all pairs.

    A pair that was measured before is not measured again the first time that it is asked for.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self._fresh = {
            frozenset(each.plan.members): each
            for each in board.outcomes
            if len(each.plan.members) == 2 and each.passed and not each.plan.interface
        }
        self._made: list[Outcome] = []

    @property
    def median(self) -> float | None:
        """Of all pairs that passed; None where there are too few."""
        speeds = [each.bytes_per_second for each in self._made if each.passed and each.bytes_per_second]
        return median_high(speeds) if len(speeds) >= _LEAST_PAIRS else None

    async def attempt(self, wave: tuple[Members, ...]) -> list[bool | None]:
        """Make the trials of a wave."""
        outcomes = await asyncio.gather(*(self._try(members) for members in wave))
        self._made += [each for each in outcomes if each is not None and len(each.plan.members) == 2]
        return [None if each is None else self.works(each) for each in outcomes]

    async def _try(self, members: Members) -> Outcome | None:
        return self._fresh.pop(frozenset(members), None) or await self._board.try_out(self._board.plan(members))

    def works(self, outcome: Outcome) -> bool:
        """Did it pass, and no slower than it should?"""
        return outcome.passed and not self._is_slow(outcome)

    def _is_slow(self, outcome: Outcome) -> bool:
        if len(outcome.plan.members) != 2 or self.median is None or outcome.bytes_per_second is None:
            return False
        share = max(_LEAST_SHARE, 1.0 - outcome.cpu_wait)  # a node that is busy is no slow link
        return outcome.bytes_per_second / share * self._board.limits.slow_factor < self.median

    def only_slow(self, nodes: Sequence[int]) -> bool:
        """Did all pairs pass, if slowly, of this node, or of both ends of this link?"""
        own = [each for each in self._made if set(nodes) <= set(each.plan.members)]
        return all(each.passed for each in own) and any(self._is_slow(each) for each in own)

    def figures(self, nodes: Sequence[int]) -> list[str]:
        """Return what pairs with all these nodes reached, beside the median."""
        own = [each for each in self._made if set(nodes) <= set(each.plan.members) and each.bytes_per_second]
        lines = [
            f"{_named(self._board, each.plan.members)}: {in_words(each.bytes_per_second or 0)}" for each in own[:4]
        ]
        return [*lines, f"median of all pairs: {in_words(self.median)}"] if self.median else lines


def _accuse(
    board: Board, kind: PreflightKind, nodes: Sequence[int], text: str, *, hint: str = "", path: str = ""
) -> None:
    """Add a finding, with what trials of these nodes said."""
    evidence, diagnosis = _evidence(board, nodes)
    board.accuse(kind, nodes, text, path=path, evidence=evidence, diagnosis=diagnosis, hint=hint)


async def _accuse_all(board: Board, proof: Proof, grades: Grades) -> None:
    bad = sorted(node for node in proof.bad if not board.lost(node))
    failing = [node for node in bad if not grades.only_slow([node])]
    closer = await asyncio.gather(*(_closer(board, node, proof, grades) for node in failing[:_MOST_CLOSER]))
    found = dict(zip(failing, closer, strict=False))
    for node in bad:
        name, peers = board.names[node], ", ".join(board.hosts(proof.failed_with[node])[:4])
        if node not in failing:
            text = f"{name} is slow with every node that it was tried with; {peers} are fast with others"
            board.accuse(PreflightKind.NODE_SLOW, [node], text, evidence=grades.figures([node]), hint=_HINT_SLOW)
            continue
        path, hint = found.get(node, ("", ""))
        text = f"{name} works with no other node: its trials with {peers} failed or were slow; these work with others"
        _accuse(board, PreflightKind.NODE_FAILS, [node], text, hint=hint, path=path)
    for node in sorted(proof.unsteady):
        text = f"{board.names[node]} works with other nodes at times only; these work with one another"
        _accuse(board, PreflightKind.NODE_UNSTEADY, [node], text, hint=_HINT_UNSTEADY)
    for link in sorted(proof.bad_links):
        named = " and ".join(board.hosts(link))
        if grades.only_slow(link):
            text = f"{named} are slow together; both are fast with other nodes"
            board.accuse(PreflightKind.LINK_SLOW, link, text, evidence=grades.figures(link), hint=_HINT_LINK)
            continue
        text = f"{named} do not work together; both work with other nodes"
        hint = await _with_interface(board, link) if why_another(board, link) else ""
        path = f"{interface_variable(board)} is not set" if hint else ""
        _accuse(board, PreflightKind.LINK_FAILS, link, text, hint=hint or _HINT_LINK, path=path)
    if proof.split:
        near = min(proof.split[1])
        path, hint = await _closer(board, near, proof, grades)
        evidence, diagnosis = _evidence(board, [near])
        board.divide(proof.split, evidence=evidence, diagnosis=diagnosis, hint=hint if path else _HINT_LINK)
    await _accuse_nobody(board, proof)


async def _accuse_nobody(board: Board, proof: Proof) -> None:
    """Faults of which it cannot be said whose they are."""
    for members in at_scale(proof):
        text = f"{len(members)} nodes together fail; all parts of them that were tried work"
        _accuse(board, PreflightKind.FAILS_AT_SCALE, members, text, hint=_HINT_SCALE)
    for flaky in map(sorted, proof.flaky):
        text = f"{_named(board, flaky)} failed together, or were slow, once, and passed once"
        _accuse(board, PreflightKind.COMES_AND_GOES, flaky, text)
    unknown = sorted(proof.unknown)
    if unknown and not board.late:
        hint = await _with_interface(board, unknown) if not proof.sound else ""
        text = f"{', '.join(board.hosts(unknown)[:8])} work with no other node, and nothing shows which is at fault"
        _accuse(board, PreflightKind.NOT_TOLD_APART, unknown, text, hint=hint)


def _evidence(board: Board, nodes: Sequence[int]) -> tuple[list[str], str]:
    """Return what trials with these nodes said, the smallest first, and what unhang says of one that hung."""
    failed = [each for each in board.outcomes if not each.passed and set(nodes) & set(each.plan.members)]
    failed.sort(key=lambda each: (not set(nodes) <= set(each.plan.members), len(each.plan.members)))
    lines = [f"{_named(board, each.plan.members)}: {each.why}" for each in failed[:4]]
    small = [each for each in failed if len(each.plan.members) == 2] or failed
    return lines, next((each.diagnosis for each in small if each.diagnosis), "")


def _named(board: Board, members: Sequence[int]) -> str:
    return " and ".join(board.hosts(members)) if len(members) < 3 else f"{len(members)} nodes"


async def _closer(board: Board, node: int, proof: Proof, grades: Grades) -> tuple[str, str]:
    """Try a bad node with one that works, by interface and by GPU; return the path that is at fault, and a hint."""
    sound = proof.islands[0] - {node}
    witness = min(sound, key=lambda each: abs(each - node))
    for interface in shared_interfaces(board):
        if board.links[node].hello.facts.address_of(interface):
            plan = replace(board.plan((witness, node)), interface=interface, look=False)
            outcome = await board.try_out(plan)
            if outcome is not None and grades.works(outcome):
                return setting_at_fault(board, node, interface)
    if len(board.gpus.get(node, ())) > 1:
        failed = [gpu for gpu in board.gpus[node] if not await _with_gpu(board, witness, node, gpu)]
        if failed and len(failed) < len(board.gpus[node]):
            named = ", ".join(map(str, failed))
            return (
                f"GPU {named}",
                f"only GPU {named} and the network device beside it fail: check both, and the PCIe link",
            )
    return "", _HINT_NODE


async def _with_gpu(board: Board, witness: int, node: int, gpu: int) -> bool:
    gpus = {witness: board.gpus[witness][:1], node: (gpu,)}
    outcome = await board.try_out(replace(board.plan((witness, node)), gpus=gpus, look=False))
    return outcome is None or outcome.passed


async def _with_interface(board: Board, nodes: Sequence[int]) -> str:
    """Where nothing works as it is set: does it work with one interface named?"""
    for interface in shared_interfaces(board):
        outcome = await board.try_out(replace(board.plan(nodes), interface=interface, look=False))
        if outcome is not None and outcome.passed:
            hint = f"all of them work with {interface_variable(board)}={interface}: set it for the job"
            return hint + why_another(board, nodes)
    return ""


def _too_few(board: Board) -> str:
    return "there is one node" if len(board.names) == 1 else "fewer than two nodes are left"


def in_words(bytes_per_second: float) -> str:
    """Return a bandwidth for people."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6)):
        if bytes_per_second >= size:
            return f"{bytes_per_second / size:.1f} {unit}"
    return f"{bytes_per_second / 1e3:.0f} kB/s"


_HINT_NODE = "check its cable, switch port, address, firewall and the driver of its network device"
_HINT_UNSTEADY = (
    "count errors and drops of its network device and switch port (ethtool -S, perfquery); reseat its cable"
)
_HINT_LINK = "check routes, firewalls, cables and switches between the two"
_HINT_SLOW = "check the speed and errors of its network device (ethtool, ibstat), its MTU, and what else uses it"
_HINT_SCALE = (
    "check limits that grow with nodes: open files, memory of the network device, the switch's tables, timeouts"
)
