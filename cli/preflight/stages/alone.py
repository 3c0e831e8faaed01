"""Each node without any other: its devices one by one, and all of its GPUs together."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median_high

from cli.preflight.board import Board, StageNotes
from cli.preflight.conduct import Outcome, TrialPlan
from cli.preflight.stages.compare_facts import busy_gpus, checks_of, lacking
from cli.preflight.stages.settings import misleading_name, setting_at_fault
from cli.preflight.stages.tcp import shared_interfaces
from collector.align.thresholds import is_majority
from shared.answer.preflight import PreflightKind
from shared.missing import Missing
from shared.plural import counted

_MOST_SAID = 500
_LEAST_TIMES = 3
"""Of two nodes none is the slow one."""

_LEAST_SHARE = 0.05
_P2P, _SHM = {"NCCL_P2P_DISABLE": "1"}, {"NCCL_SHM_DISABLE": "1"}
_HINT_P2P = (
    "GPUs of this node do not reach each other directly: check NVLink (nvidia-smi nvlink -s), and that IOMMU and PCIe "
    "ACS are off, or set up for peer-to-peer; jobs can run with NCCL_P2P_DISABLE=1, slower"
)
_HINT_SHM = (
    "check the size of /dev/shm (df -h /dev/shm); in a container, raise it (--shm-size, or a medium: Memory volume)"
)
_HINT_PYTHON = "name the Python that the job runs with, and that has its PyTorch, by --python"
_HINT_GPUS = (
    "check its driver (nvidia-smi), CUDA_VISIBLE_DEVICES, and that --python has a PyTorch for CUDA; or --backend gloo"
)
_HINT_LINK = "check its cable, module and switch port (ip link, ethtool), and what configures it"
_HINT_CPU = "see what else runs there, its clock and temperature (turbostat), and what its container may use (cpu.max)"
_HINT_NODE = "read its kernel log (dmesg, Xid lines) and nvidia-smi -q"


def compare(board: Board) -> None:
    """What the nodes say of themselves; those are accused that lack what most have."""
    with board.stage("what the nodes report") as stage:
        before = len(board.findings)
        facts = {node: board.links[node].hello.facts for node in board.members}
        failed = {node: said for node in facts if (said := board.links[node].hello.failed)}
        facts = {node: report for node, report in facts.items() if node not in failed}
        _note_unable(board, failed, able=len(facts))
        if facts:
            board.checks = checks_of(facts)
            for node, what in lacking(facts):
                linkless = what.startswith("interface ")
                hint = _HINT_LINK if linkless else _HINT_NODE
                text = f"{board.names[node]}: {what}"
                board.accuse(PreflightKind.NODE_DIFFERS, [node], text, hint=hint, out=linkless)
            _note(board, facts)
            _leave_out_without_gpus(board, facts)
        stage.outcome = "failed" if len(board.findings) > before else "passed"
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


def _leave_out_without_gpus(board: Board, nodes: Iterable[int]) -> None:
    """Try no further where NCCL has no GPU; where most nodes have none, what they were told to use is at fault."""
    every = list(nodes)
    without = [] if board.backend == "gloo" else [node for node in every if not board.gpus.get(node)]
    if is_majority(len(every) - len(without), len(every)):
        accused = {host for each in board.findings for host in each.hosts}
        for node in (each for each in without if board.names[each] not in accused):
            text = f"{board.names[node]}: PyTorch sees no GPU there, and some on most nodes"
            board.accuse(PreflightKind.NODE_DIFFERS, [node], text, hint=_HINT_NODE)
        board.out.update(without)
    elif without:
        text = f"the backend is {board.backend}, and PyTorch sees no GPU on {board.few(without)}"
        board.accuse(PreflightKind.NOT_TOLD_APART, without, text, hint=_HINT_GPUS, out=True)


def _note(board: Board, facts: Iterable[int]) -> None:
    links = {node: board.links[node] for node in facts}
    board.untested += [
        f"{board.names[n]}: {what}" for n, what in busy_gpus({n: e.hello.facts for n, e in links.items()})
    ]
    by_name = [n for n in links if board.backend != "gloo" and misleading_name(board, n) is not None]
    if by_name:
        board.untested.append(
            f"groups of Gloo, on the CPUs: the host names of {board.few(by_name)} lead to the loopback there, so that "
            "these groups need GLOO_SOCKET_IFNAME"
        )
    if board.backend != "gloo":
        unread: dict[str, list[int]] = {}
        for node, each in links.items():
            if isinstance(each.hello.facts.gpus, Missing):
                unread.setdefault(each.hello.facts.gpus.detail, []).append(node)
        for why, nodes in unread.items():
            board.untested.append(f"ECC and NVLink counters on {board.few(nodes)}: {why}")


async def try_devices(board: Board) -> None:
    """Each GPU alone; without GPUs, the CPUs."""
    name = "each GPU alone" if board.backend != "gloo" else "each node alone"
    with board.stage(name) as stage:
        outcomes = await _on_each(board, stage, "device")
        _accuse(board, outcomes, stage, what="computes wrongly, or not at all")
        await _compare_times(board, outcomes, stage)
        if board.backend == "gloo":
            seen = any(board.links[node].hello.gpus for node in board.members)
            why = "the backend is gloo, which takes none" if seen else "PyTorch sees none on these nodes"
            board.untested.append(f"GPUs: {why}")


async def _compare_times(board: Board, outcomes: Sequence[Outcome | None], stage: StageNotes) -> None:
    """Accuse who multiplies much more slowly than the median, twice: without the time that it waited for a busy CPU."""
    passed = [each for each in outcomes if each is not None and each.passed and each.multiply_seconds]
    times = {each.plan.members[0]: _own_seconds(each) for each in passed}
    if len(times) < _LEAST_TIMES:
        return
    usual = median_high(times.values())
    most = usual * board.limits.slow_factor**0.5
    slow = [node for node, seconds in times.items() if seconds > most]
    again = await asyncio.gather(*(board.try_out(replace(board.plan([node]), kind="device")) for node in slow))
    for node, outcome in zip(slow, again, strict=True):
        if outcome is None or not outcome.passed or (seconds := min(times[node], _own_seconds(outcome))) <= most:
            continue
        text = f"{board.names[node]} multiplies matrices {seconds / usual:.1f} times as slowly as the median node"
        evidence = [f"{seconds:.2f} s; median of {len(times)} nodes: {usual:.2f} s"]
        evidence += [f"its control group held it back: {each}" for each in outcome.held_back.values()]
        stage.outcome, stage.text = "failed", f"median of matrix products {usual:.2f} s"
        board.accuse(PreflightKind.NODE_SLOW, [node], text, evidence=evidence, hint=_HINT_CPU, out=True)


def _own_seconds(outcome: Outcome) -> float:
    return max(outcome.multiply_seconds.values()) * max(_LEAST_SHARE, 1.0 - outcome.cpu_wait)


async def try_nodes(board: Board) -> None:
    """All GPUs of a node together. NCCL also meets itself on one GPU: it starts there, and finds its interface.

    Where that fails, again without P2P, without SHM, and with each interface named.
    """
    least = 1 if board.backend != "gloo" else 2
    able = [node for node in board.members if len(board.gpus.get(node, ())) >= least]
    with board.stage("all GPUs of each node") as stage:
        if not able:
            stage.outcome, stage.text = "skipped", "no node has more than one GPU"
            return
        outcomes = await _on_each(board, stage, "collective", able)
        failed = [outcome for outcome in outcomes if outcome is not None and not outcome.passed]
        hints = dict(await asyncio.gather(*(_otherwise(board, each) for each in failed)))
        _accuse(board, outcomes, stage, what="does not work with all of its GPUs together", hints=hints)


async def _on_each(
    board: Board, stage: StageNotes, kind: str, nodes: Sequence[int] | None = None
) -> list[Outcome | None]:
    chosen = board.members if nodes is None else nodes
    stage.trials = len(chosen)
    plans = [replace(board.plan([node]), kind=kind) for node in chosen]
    return list(await asyncio.gather(*(board.try_out(plan) for plan in plans)))


async def _otherwise(board: Board, failed: Outcome) -> tuple[int, str]:
    """Tell a fault of P2P from one of shared memory, and from a wrong interface: what makes the trial pass?"""
    (node,) = failed.plan.members
    several = len(board.gpus.get(node, ())) > 1
    for variables, hint in ((_P2P, _HINT_P2P), (_SHM, _HINT_SHM)) if several else ():
        if await _passes(board, replace(failed.plan, variables=variables)):
            return node, f"it works with {next(iter(variables))}=1: {hint}"
    for interface in shared_interfaces(board):
        if await _passes(board, replace(failed.plan, interface=interface)):
            return node, setting_at_fault(board, node, interface)[1]
    return node, _HINT_NODE


async def _passes(board: Board, plan: TrialPlan) -> bool:
    outcome = await board.try_out(replace(plan, seconds=board.seconds_for_trial(), look=False))
    return outcome is not None and outcome.passed


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
