"""Each node without any other: its devices one by one, and all of its GPUs together."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cli.preflight.board import Board, StageNotes
from cli.preflight.conduct import Outcome
from cli.preflight.stages.compare_facts import busy_gpus, checks_of, lacking
from collector.align.thresholds import is_majority
from shared.answer.preflight import PreflightKind
from shared.missing import Missing
from shared.plural import counted

_MOST_SAID = 500
_P2P, _SHM = {"NCCL_P2P_DISABLE": "1"}, {"NCCL_SHM_DISABLE": "1"}
_HINT_P2P = (
    "GPUs of this node do not reach each other directly: check NVLink (nvidia-smi nvlink -s), and that IOMMU and PCIe "
    "ACS are off, or set up for peer-to-peer; jobs can run with NCCL_P2P_DISABLE=1, slower"
)
_HINT_SHM = (
    "check the size of /dev/shm (df -h /dev/shm); in a container, raise it (--shm-size, or a medium: Memory volume)"
)
_HINT_PYTHON = "name the Python that the job runs with, and that has its PyTorch, by --python"
_HINT_NODE = "read its kernel log (dmesg, Xid lines) and nvidia-smi -q"


def compare(board: Board) -> None:
    """What the nodes say of themselves; those are accused that lack what most have."""
    with board.stage("what the nodes report") as stage:
        facts = {node: board.links[node].hello.facts for node in board.members}
        failed = {node: said for node in facts if (said := board.links[node].hello.failed)}
        facts = {node: report for node, report in facts.items() if node not in failed}
        _note_unable(board, failed, able=len(facts))
        if facts:
            board.checks = checks_of(facts)
            for node, what in lacking(facts):
                board.accuse(PreflightKind.NODE_DIFFERS, [node], f"{board.names[node]}: {what}", hint=_HINT_NODE)
            _note(board, facts)
        stage.outcome = "failed" if board.findings else "passed"
        stage.text = f"{len(facts)} of {len(board.names)} nodes"


def _note_unable(board: Board, failed: Mapping[int, str], *, able: int) -> None:
    """Accuse nodes that cannot run trials; where most cannot, what they were told to run is at fault, and no node."""
    if is_majority(able, able + len(failed)):
        for node, said in failed.items():
            text = f"{board.names[node]} cannot run trials: {said[:_MOST_SAID]}"
            board.accuse(PreflightKind.NODE_FAILS_ALONE, [node], text, hint=_HINT_PYTHON, out=True)
    elif failed:
        text = f"{counted(len(failed), 'node')} cannot run trials: {next(iter(failed.values()))[:_MOST_SAID]}"
        board.accuse(PreflightKind.NOT_TOLD_APART, list(failed), text, hint=_HINT_PYTHON, out=True)


def _note(board: Board, facts: Iterable[int]) -> None:
    links = {node: board.links[node] for node in facts}
    board.untested += [
        f"{board.names[n]}: {what}" for n, what in busy_gpus({n: e.hello.facts for n, e in links.items()})
    ]
    without = [n for n, each in links.items() if isinstance(each.hello.facts.gpus, Missing) and board.backend != "gloo"]
    if without:
        named = ", ".join(board.hosts(without))
        board.untested.append(f"ECC and NVLink counters on {named}: NVML was not read (pip install 'unhang[gpu]')")


async def try_devices(board: Board) -> None:
    """Each GPU alone; without GPUs, the CPUs."""
    name = "each GPU alone" if board.backend != "gloo" else "each node alone"
    with board.stage(name) as stage:
        outcomes = await _on_each(board, stage, "device")
        _accuse(board, outcomes, stage, what="computes wrongly, or not at all")
        if board.backend == "gloo":
            board.untested.append("GPUs: the backend is gloo")


async def try_nodes(board: Board) -> None:
    """All GPUs of a node together, where there are several; where that fails, without P2P and without SHM."""
    several = [node for node in board.members if len(board.gpus.get(node, ())) > 1]
    with board.stage("all GPUs of each node") as stage:
        if not several:
            stage.outcome, stage.text = "skipped", "no node has more than one GPU"
            return
        outcomes = await _on_each(board, stage, "collective", several)
        failed = [outcome for outcome in outcomes if outcome is not None and not outcome.passed]
        hints = dict(await asyncio.gather(*(_without_paths(board, each) for each in failed)))
        _accuse(board, outcomes, stage, what="does not work with all of its GPUs together", hints=hints)


async def _on_each(
    board: Board, stage: StageNotes, kind: str, nodes: Sequence[int] | None = None
) -> list[Outcome | None]:
    chosen = board.members if nodes is None else nodes
    stage.trials = len(chosen)
    plans = [replace(board.plan([node]), kind=kind) for node in chosen]
    return list(await asyncio.gather(*(board.try_out(plan) for plan in plans)))


async def _without_paths(board: Board, failed: Outcome) -> tuple[int, str]:
    """Tell a fault of P2P from one of shared memory: which of them, switched off, makes the trial pass?"""
    (node,) = failed.plan.members
    for variables, hint in ((_P2P, _HINT_P2P), (_SHM, _HINT_SHM)):
        outcome = await board.try_out(replace(failed.plan, variables=variables, seconds=board.seconds_for_trial()))
        if outcome is not None and outcome.passed:
            return node, f"it works with {next(iter(variables))}=1: {hint}"
    return node, _HINT_NODE


def _accuse(
    board: Board,
    outcomes: Sequence[Outcome | None],
    stage: StageNotes,
    *,
    what: str,
    hints: dict[int, str] | None = None,
) -> None:
    failed = [each for each in outcomes if each is not None and not each.passed]
    if not failed:
        return
    stage.outcome = "failed"
    nodes = [each.plan.members[0] for each in failed]
    stage.text = f"{len(failed)} of {len(outcomes)} failed"
    if len(failed) * 2 > len(outcomes) and len(outcomes) > 1:
        text = f"most nodes fail alone, so it may be what they share: {failed[0].why}"
        board.accuse(PreflightKind.NOT_TOLD_APART, nodes, text, evidence=[each.why for each in failed], out=True)
        return
    for each, node in zip(failed, nodes, strict=True):
        text = f"{board.names[node]} {what}, without any other node: {each.why}"
        hint = (hints or {}).get(node, "" if board.backend == "gloo" else _HINT_NODE)
        diagnosis = each.diagnosis
        board.accuse(PreflightKind.NODE_FAILS_ALONE, [node], text, diagnosis=diagnosis, hint=hint, out=True)
