"""A whole preflight, as the coordinator runs it: its stages in their order, and the report."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from cli.preflight.board import Board, Limits, Tell
from cli.preflight.channel import TOKEN_ADVICE
from cli.preflight.conclude import conclude
from cli.preflight.coordinator import Reception
from cli.preflight.stages.addresses import find_shared_addresses
from cli.preflight.stages.alone import compare, try_devices, try_nodes
from cli.preflight.stages.compare_facts import clocks_apart
from cli.preflight.stages.tcp import shared_interfaces, try_tcp
from cli.preflight.stages.together import measure, try_all
from shared.answer.preflight import PreflightKind, PreflightReport
from shared.plural import counted

DEFAULT_MASTER_PORT = 29500
_LOOPBACK = ("127.", "::1")


@dataclass(frozen=True)
class PreflightPlan:
    """What to test, and how."""

    backend: str = "auto"
    master_port: int = DEFAULT_MASTER_PORT
    limits: Limits = field(default_factory=Limits)


async def coordinate(
    reception: Reception, names: Sequence[str], wanted: PreflightPlan, tell: Tell, *, patience: float | None = None
) -> PreflightReport:
    """Wait for the nodes, run all stages, and report. `names`: what the scheduler or the user calls each, or none.

    `patience`: how long to wait without news once most nodes are here; None: all of `--wait`. It ends by the
    deadline: what did not fit is said to be untested.
    """
    board = Board([], reception.links, wanted.limits, tell, reception.arrivals)
    with board.stage("waiting for nodes") as stage:
        start = min(wanted.limits.start_seconds, board.seconds_left)
        await reception.wait(start, most=start + (board.seconds_left - start) * _SHARE_FOR_ARRIVALS, patience=patience)
        board.names += _names(reception, names)
        board.unnamed = (
            frozenset(range(len(names), len(board.names))) - reception.links.keys() - reception.arrivals.keys()
        )
        await find_shared_addresses(board)
        _accuse_absent(board, reception)
        _note_clocks(board, reception)
        stage.text = f"{len(reception.links)} of {len(board.names)}"
        stage.outcome = "passed" if len(reception.links) == len(board.names) else "failed"
        board.untested += [f"a connection was refused: {why}" for why in reception.refused]
    tell(f"{counted(len(board.members), 'node')} to test, in {board.seconds_left:.0f} s at most (--deadline)")
    median = await _stages(board, wanted)
    return conclude(board, median)


async def _stages(board: Board, wanted: PreflightPlan) -> float | None:
    _choose_backend(board, wanted.backend)
    compare(board)
    _find_addresses(board)
    steps: tuple[Callable[[], Awaitable[None]], ...] = (
        lambda: try_tcp(board, wanted.master_port),
        lambda: try_devices(board),
        lambda: try_nodes(board),
        lambda: try_all(board),
    )
    for step in steps:
        if not board.members:
            return None
        before = _troubles(board)
        await step()
        if _troubles(board) != before:
            await find_shared_addresses(board)
    median = await measure(board)
    await find_shared_addresses(board)
    return median


def _troubles(board: Board) -> tuple[int, int]:
    """Where these grow, another host may have the address of a node."""
    return len(board.findings), sum(map(board.lost, board.links))


def _names(reception: Reception, names: Sequence[str]) -> list[str]:
    """What the scheduler or the user calls each node, else what it calls itself. All differ."""
    found: list[str] = []
    for node in range(reception.nodes):
        link = reception.links.get(node)
        arrival = reception.arrivals.get(node)
        own = link.host if link is not None else (arrival.host if arrival is not None else "") or f"node {node}"
        name = names[node] if node < len(names) else own
        found.append(name if name not in found else f"{name} (node {node})")
        if link is not None:
            link.host = found[-1]
    return found


def _note_clocks(board: Board, reception: Reception) -> None:
    for node, seconds in clocks_apart({node: reception.clocks_ahead[node] for node in reception.links}):
        text = f"the clock of {board.names[node]} differs from the others' by {seconds:+.0f} s"
        board.accuse(PreflightKind.CLOCK_DIFFERS, [node], text, hint=_HINT_CLOCK)


def _accuse_absent(board: Board, reception: Reception) -> None:
    absent = [node for node in range(len(board.names)) if node not in board.links]
    if len(absent) * 2 >= len(board.names) and len(absent) > 1:
        text = (
            f"{len(absent)} of {len(board.names)} nodes did not report: the first node, or its network, may be at fault"
        )
        board.accuse(PreflightKind.NOT_TOLD_APART, range(len(board.names)), text, hint=_HINT_ABSENT)
        return
    silent = sorted(set(absent) - board.out - reception.arrivals.keys())
    if silent and len(silent) <= reception.other_tokens:
        text = f"{board.few(silent)} did not report, and {counted(len(silent), 'node')} with another token came"
        board.accuse(PreflightKind.NOT_TOLD_APART, silent, text, hint=TOKEN_ADVICE, out=True)
    for node in sorted(set(absent) - board.out):
        text, hint = _why_absent(board, node, reception)
        board.accuse(PreflightKind.NODE_ABSENT, [node], text, hint=hint, out=True)


def _why_absent(board: Board, node: int, reception: Reception) -> tuple[str, str]:
    name, first, arrival = board.names[node], board.names[0], reception.arrivals.get(node)
    if node in reception.gone:
        return f"{name} does not take part: {reception.gone[node]}", _HINT_SSH
    if arrival is None:
        waited = time.monotonic() - board.began
        return f"{name} did not report to the coordinator on {first} within {waited:.0f} s", _HINT_ABSENT
    if arrival.report_bytes is None:
        return f"{name} connected to the coordinator on {first}, and did not get PyTorch imported", _HINT_IMPORT
    size = arrival.report_bytes
    text = f"{name} connected to the coordinator on {first}, but its report of {size} bytes did not arrive"
    return text, _HINT_LARGE if size > _SMALL_BYTES else _HINT_ABSENT


_HINT_IMPORT = "import torch there by hand: its file system may hang"
_HINT_CLOCK = "start its time service (chronyc tracking, timedatectl): tokens and certificates expire, and logs mislead"
_SMALL_BYTES = 1000
"""Fits into a single packet of any network."""

_HINT_LARGE = (
    "small packets pass and large ones do not: compare the MTU of its interface, of its switch port and of the others"
)
_SHARE_FOR_ARRIVALS = 0.4
"""Of what is left of the deadline after `--wait`: for nodes that have connected and are importing PyTorch."""

_HINT_SSH = "see whether it is up, and try the same with ssh by hand"
_HINT_ABSENT = "check that it is up, that its task was started, and that it reaches the coordinator's port"


def _choose_backend(board: Board, backend: str) -> None:
    """By default NCCL, where most nodes have GPUs."""
    counts = {node: link.hello.gpus for node, link in board.links.items()}
    with_gpus = sum(1 for count in counts.values() if count)
    usual = "nccl" if with_gpus * 2 > len(counts) else "gloo"
    board.backend = usual if backend == "auto" else backend
    if board.backend == "gloo":
        board.gpus = dict.fromkeys(counts, (0,))
    else:
        board.gpus = {node: tuple(range(count)) for node, count in counts.items() if count}


def _find_addresses(board: Board) -> None:
    """Give nodes that came over ssh, or by loopback, an address at which others reach them: that of their names."""
    shared = shared_interfaces(board)
    for node in board.members:
        link, facts = board.links[node], board.links[node].hello.facts
        if shared and (not link.address or link.address.startswith(_LOOPBACK)):
            own = [address for name in shared if (address := facts.address_of(name))]
            named = facts.name_address if facts.name_address in own else None
            link.address = named or next(iter(own), link.address)
        link.address = link.address or link.hello.facts.host
