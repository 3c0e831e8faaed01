"""The report: the state of each node, and the verdict, by what was found."""

import secrets
import time
from collections.abc import Sequence

from cli.preflight.board import Board, ends_left_out, few
from collector.gather.judge_and_stamp import rfc3339
from shared.answer.preflight import (
    DrainCommand,
    NodeResult,
    NodeState,
    PreflightFinding,
    PreflightKind,
    PreflightReport,
    Soundness,
)
from shared.plural import counted
from shared.shell_commands import copyable

ACCUSES_NODE = frozenset(
    {
        PreflightKind.NODE_ABSENT,
        PreflightKind.NODE_LOST,
        PreflightKind.NODE_FAILS_ALONE,
        PreflightKind.NODE_DIFFERS,
        PreflightKind.NODE_FAILS,
        PreflightKind.NODE_UNSTEADY,
        PreflightKind.NODE_SLOW,
        PreflightKind.PATH_FAILS,
    }
)
_ACCUSES_SEVERAL = frozenset({PreflightKind.NETWORK_DIVIDED, PreflightKind.SAME_ADDRESS})
_ACCUSES_LINK = frozenset({PreflightKind.LINK_FAILS, PreflightKind.LINK_SLOW, PreflightKind.PATH_LINK_FAILS})
_OPEN = frozenset({PreflightKind.FAILS_AT_SCALE, PreflightKind.NOT_TOLD_APART})
_BROKEN = frozenset({PreflightKind.NODE_FAILS, PreflightKind.NODE_UNSTEADY, PreflightKind.NODE_LOST})
"""That one of its paths fails, too, is no news."""

_OF_ONE_NODE = (
    ACCUSES_NODE - {PreflightKind.NODE_FAILS_ALONE, PreflightKind.NODE_DIFFERS}
    | _ACCUSES_LINK
    | {PreflightKind.COMES_AND_GOES}
)
_OF_SEVERAL = frozenset({PreflightKind.NETWORK_DIVIDED, PreflightKind.NOT_TOLD_APART})
"""What packets that reach another host explain: of a node or a link, and of nodes that all have such an address."""

_REASON = "preflight"


def conclude(board: Board, median: float | None) -> PreflightReport:
    """Return the report. Nodes that stopped answering are accused here, where nothing else accused them."""
    _accuse_lost(board)
    if board.late:
        board.untested.append(f"not all trials fit into the deadline of {board.limits.deadline_seconds:.0f} s")
    known = _without_excused(board.names[0], board.findings)
    bad = {host for each in known if each.kind in ACCUSES_NODE for host in each.hosts}
    broken = {host for each in known if each.kind in _BROKEN and not each.path for host in each.hosts}
    explained = _ACCUSES_LINK | {PreflightKind.COMES_AND_GOES}
    findings = [each for each in known if not (each.kind in explained and bad & set(each.hosts))]
    findings = [each for each in findings if not (each.kind is PreflightKind.PATH_FAILS and broken & set(each.hosts))]
    if board.names[0] in bad and len(board.names) > 1:
        board.untested.append(f"{board.names[0]} is bad and coordinated: test again with another first node")
    out = ends_left_out(each.hosts for each in findings if each.kind in _ACCUSES_LINK)
    out |= {host for each in findings if each.kind in _ACCUSES_SEVERAL for host in _without_largest(each)}
    nodes = tuple(_node(board, node, bad, out) for node in range(len(board.names)))
    verdict = _verdict(nodes, findings)
    findings.sort(key=lambda each: list(PreflightKind).index(each.kind))
    names = tuple(node.host for node in nodes if node.state is NodeState.BAD and node.node not in board.unnamed)
    return PreflightReport(
        result_id=secrets.token_hex(16),
        made_at=rfc3339(time.time_ns()),
        took_seconds=round(time.monotonic() - board.began, 2),
        verdict=verdict,
        headline=_headline(verdict, nodes, findings),
        backend=board.backend,
        nodes=nodes,
        findings=tuple(findings),
        checks=board.checks,
        stages=tuple(board.stages),
        untested=tuple(dict.fromkeys(board.untested)),
        drain=tuple(_drain(names)),
        median_bytes_per_second=median,
    )


def _accuse_lost(board: Board) -> None:
    """Accuse nodes that stopped answering; but not where the coordinator's own node is bad, or most are lost."""
    accusing = ACCUSES_NODE | {PreflightKind.SAME_ADDRESS}
    accused = {host for each in board.findings if each.kind in accusing for host in each.hosts}
    lost = [node for node, link in sorted(board.links.items()) if link.lost and board.names[node] not in accused]
    first = board.names[0]
    if lost and (first in accused or 0 in lost or len(lost) * 2 >= len(board.links)):
        text = f"{board.few(lost)} stopped answering the coordinator on {first}, which may itself be at fault"
        board.accuse(PreflightKind.NOT_TOLD_APART, lost, text, hint="test again with another first node")
        return
    for node in lost:
        board.accuse(PreflightKind.NODE_LOST, [node], f"{board.names[node]}: {board.links[node].lost}")


def _without_excused(first: str, findings: Sequence[PreflightFinding]) -> list[PreflightFinding]:
    """Return the findings without those on the network of nodes whose address another host has as well.

    If that is the first node's address, nodes that did not report or were lost may have reached the other host.
    """
    shared = {host for each in findings if each.kind is PreflightKind.SAME_ADDRESS for host in each.hosts}
    doubted = {PreflightKind.NODE_ABSENT, PreflightKind.NODE_LOST} if first in shared else set[PreflightKind]()
    found = []
    for each in findings:
        if each.kind in _OF_ONE_NODE and shared & set(each.hosts):
            continue
        if each.kind in _OF_SEVERAL and shared >= _without_largest(each):
            continue
        if each.kind in doubted:
            text = f"{each.text}; it may have reached the other host that has the address of {first}"
            each = each.model_copy(update={"kind": PreflightKind.NOT_TOLD_APART, "text": text, "hint": ""})
        found.append(each)
    return found


def _without_largest(finding: PreflightFinding) -> set[str]:
    """Return the nodes of all sides but the largest; of nodes with one address, all."""
    return set(finding.hosts) - set(*finding.sides[:1])


def _node(board: Board, node: int, bad: set[str], out: set[str]) -> NodeResult:
    host = board.names[node]
    if host in bad:
        state = NodeState.BAD
    elif node in board.together:
        state = NodeState.LEFT_OUT if host in out else NodeState.GOOD
    else:
        state = NodeState.LEFT_OUT if host in out else NodeState.UNKNOWN
    of_pairs = (each for each in board.outcomes if len(each.plan.members) == 2 and not each.plan.interface)
    pairs = [each.bytes_per_second for each in of_pairs if node in each.plan.members]
    products = [each.multiply_seconds[node] for each in board.outcomes if node in each.multiply_seconds]
    return NodeResult(
        node=node,
        host=host,
        state=state,
        bytes_per_second=max((speed for speed in pairs if speed), default=None),
        multiply_seconds=min(products, default=None),
    )


def _verdict(nodes: Sequence[NodeResult], findings: Sequence[PreflightFinding]) -> Soundness:
    states = {node.state for node in nodes}
    if states == {NodeState.GOOD} and not any(each.kind in _OPEN for each in findings):
        return Soundness.SOUND
    if NodeState.BAD in states or any(each.kind in _ACCUSES_LINK | _ACCUSES_SEVERAL for each in findings):
        return Soundness.BAD_NODES
    return Soundness.CANNOT_TELL


def _headline(verdict: Soundness, nodes: Sequence[NodeResult], findings: Sequence[PreflightFinding]) -> str:
    count = counted(len(nodes), "node")
    if verdict is Soundness.SOUND:
        return f"Sound: {count} passed all trials that could be made"
    unknown = [node for node in nodes if node.state is NodeState.UNKNOWN]
    rest = f"; {counted(len(unknown), 'other node')} could not be judged" if unknown else ""
    if verdict is Soundness.BAD_NODES:
        bad = [node.host for node in nodes if node.state is NodeState.BAD]
        links = [each for each in findings if each.kind in _ACCUSES_LINK]
        named = f"{counted(len(bad), 'bad node')} of {len(nodes)}: {few(bad)}" if bad else ""
        ends = list(dict.fromkeys("–".join(each.hosts) for each in links))
        linked = f"bad links: {few(ends)}" if ends else ""
        divided = next((each.text for each in findings if each.kind in _ACCUSES_SEVERAL), "")
        text = "; ".join(part for part in (named, linked, divided) if part)
        return f"{text[0].upper()}{text[1:]}{rest}"
    first = next((each.text for each in findings if each.kind in _OPEN), "not all trials could be made")
    which = f" which of {count} is at fault" if len(nodes) > 1 else ""
    return f"Cannot tell{which}: {first}"


def _drain(hosts: Sequence[str]) -> list[DrainCommand]:
    if not hosts:
        return []
    slurm = copyable("scontrol", "update", f"NodeName={','.join(hosts)}", "State=DRAIN", f"Reason={_REASON}")
    commands = [DrainCommand(scheduler="slurm", command=slurm)] if slurm else []
    kubernetes = copyable("kubectl", "cordon", operands=tuple(hosts))
    return [*commands, *([DrainCommand(scheduler="kubernetes", command=kubernetes)] if kubernetes else [])]
