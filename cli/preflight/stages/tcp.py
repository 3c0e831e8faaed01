"""TCP both ways between nodes, on each interface that they share and on MASTER_PORT."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from cli.preflight.board import Board, StageNotes
from cli.preflight.channel import Message
from cli.preflight.node_facts import NOT_FOR_JOBS
from cli.preflight.search.proof import Members, Proof
from cli.preflight.search.rounds import Breadth
from cli.preflight.stages.searching import search
from shared.answer.preflight import PreflightKind
from shared.errors import UnhangError

CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 15.0
_SMALL_PASSES = "bytes came back"
_IN_USE = "in use"
_ADDRESS_IN_USE = "address already in use"

Places = dict[int, tuple[str, int | str]]
"""By node: the address and the port where it listens, or why it does not."""


@dataclass
class TcpPath:
    """One interface or port, and what listens there."""

    name: str
    places: Places
    is_port: bool = False

    def __post_init__(self) -> None:
        self.failed: dict[tuple[int, int], str] = {}
        """Why one node did not reach another there."""


def shared_interfaces(board: Board) -> list[str]:
    """Return the interfaces with addresses of their own that most nodes have and jobs may use."""
    addresses: dict[str, list[str]] = {}
    for node in board.members:
        for nic in board.links[node].hello.facts.nics:
            if nic.up and nic.address and not nic.name.startswith(NOT_FOR_JOBS):
                addresses.setdefault(nic.name, []).append(nic.address)
    most = len(board.members) / 2
    unique = {name: found for name, found in addresses.items() if len(set(found)) == len(found) > most}
    return sorted(unique)


async def try_tcp(board: Board, port: int) -> None:
    """Test every node on each path, and accuse those that fail on one."""
    with board.stage("TCP on each interface and on MASTER_PORT") as stage:
        if len(board.members) < 2:
            stage.outcome, stage.text = "skipped", "there is one node"
            few = "fewer than two nodes are left" if len(board.names) > 1 else "there is one node"
            board.untested.append(f"the network: {few}")
            return
        paths = await _listen(board, port)
        proofs = await asyncio.gather(*(_search(board, path, stage) for path in paths))
        await asyncio.gather(*(_quietly(board, node, "unlisten", {}) for node in board.members))
        _accuse(board, list(zip(paths, proofs, strict=True)), stage)


async def _listen(board: Board, port: int) -> list[TcpPath]:
    names = shared_interfaces(board)
    paths = [TcpPath(name, {}) for name in names] + [TcpPath(f"port {port}", {}, is_port=True)]

    async def one(node: int) -> None:
        link = board.links[node]
        own = [link.hello.facts.address_of(name) for name in names]
        wanted = [(address, 0) for address in own if address] + [(link.address, port)]
        answer = await _quietly(board, node, "listen", {"places": wanted})
        ports = list(answer.get("ports", ())) or ["it did not listen"] * len(wanted)
        listening = [path for path, address in zip(paths, own, strict=False) if address] + [paths[-1]]
        for path, (address, _), found in zip(listening, wanted, ports, strict=False):
            path.places[node] = (address, found)

    await asyncio.gather(*(one(node) for node in board.members))
    for path in paths:
        for node, (address, found) in list(path.places.items()):
            if path.is_port and isinstance(found, str) and _ADDRESS_IN_USE in found.lower():
                path.places[node] = (address, _IN_USE)
            elif isinstance(found, str):
                del path.places[node]
                board.untested.append(f"{path.name} on {board.names[node]}: it cannot listen there: {found}")
    return [path for path in paths if len(path.places) > 1]


async def _quietly(board: Board, node: int, do: str, fields: Message) -> Message:
    try:
        return await board.links[node].ask(do, fields, _ANSWER_SECONDS)
    except UnhangError:
        return {}


async def _search(board: Board, path: TcpPath, stage: StageNotes) -> Proof:
    async def attempt(wave: tuple[Members, ...]) -> list[bool | None]:
        if board.seconds_left < _ANSWER_SECONDS:
            return [None] * len(wave)
        return list(await asyncio.gather(*(_both_ways(board, path, pair) for pair in wave)))

    own = StageNotes()
    proof = await search(
        board, sorted(path.places), [], attempt, stage=own, what=f"{path.name}: ", breadth=Breadth.FAR_PAIRS
    )
    stage.trials += own.trials
    stage.rounds = max(stage.rounds, own.rounds)
    return proof


async def _both_ways(board: Board, path: TcpPath, pair: Members) -> bool:
    one, other = pair
    there, back = await asyncio.gather(_one_way(board, path, one, other), _one_way(board, path, other, one))
    return not there and not back


async def _one_way(board: Board, path: TcpPath, one: int, other: int) -> str:
    """Connect; return why it failed, empty where it worked."""
    address, port = path.places[other]
    own = "" if path.is_port else path.places[one][0]
    number = int(path.name.split()[1]) if port == _IN_USE else port
    target = [path.name, address, number, own, port != _IN_USE]
    try:
        answer = await board.links[one].ask(
            "connect", {"targets": [target], "seconds": CONNECT_SECONDS}, _ANSWER_SECONDS
        )
        failed = answer.get("failed")
        why = str(failed.get(path.name, "no answer"))[:200] if isinstance(failed, dict) else "no answer"
    except UnhangError as error:
        why = str(error)
    if why:
        path.failed[one, other] = why
    return why


def _accuse(board: Board, found: list[tuple[TcpPath, Proof]], stage: StageNotes) -> None:
    counts = Counter(node for _, proof in found for node in proof.bad)
    tried = Counter(node for path, _ in found for node in path.places)
    everywhere = {node for node, count in counts.items() if count == tried[node]}
    for node in sorted(node for node in everywhere if not board.lost(node)):
        evidence = [line for path, _ in found for line in _evidence(board, path, node)]
        text, hint = f"{board.names[node]} exchanges TCP with no other node, on no interface", _HINT_NODE
        if evidence and all(_SMALL_PASSES in line for line in evidence):
            text, hint = f"{board.names[node]} exchanges little with other nodes, and nothing large", _HINT_LARGE
        board.accuse(PreflightKind.NODE_FAILS, [node], text, evidence=evidence, hint=hint, out=True)
    _divide(board, found)
    for path, proof in found:
        for node in sorted(node for node in proof.bad - everywhere if not board.lost(node)):
            ways = _ways(path, node)
            text = f"{board.names[node]} {ways} on {path.name}, and works on other interfaces or ports"
            hint = _HINT_PORT if path.is_port else _HINT_NODE
            evidence = _evidence(board, path, node)
            board.accuse(PreflightKind.PATH_FAILS, [node], text, path=path.name, evidence=evidence, hint=hint)
        for link in sorted(proof.bad_links):
            one, other = board.hosts(link)
            text = f"{one} and {other} do not exchange TCP on {path.name}; both do with other nodes"
            evidence = [line for node in link for line in _evidence(board, path, node, link[0] + link[1] - node)]
            board.accuse(PreflightKind.PATH_LINK_FAILS, link, text, path=path.name, evidence=evidence, hint=_HINT_LINK)
        unknown = sorted(proof.unknown - everywhere)
        if unknown:
            text = f"{', '.join(board.hosts(unknown))} do not exchange TCP on {path.name}"
            evidence = [line for node in unknown for line in _evidence(board, path, node)]
            board.accuse(PreflightKind.NOT_TOLD_APART, unknown, text, path=path.name, evidence=evidence)
    if any(proof.bad or proof.bad_links or proof.unknown or proof.split for _, proof in found):
        stage.outcome = "failed"
    elif not found:
        stage.outcome = "skipped"
        board.untested.append("TCP: the nodes have no address at which they could listen")
    stage.text = ", ".join(path.name for path, _ in found)


def _divide(board: Board, found: list[tuple[TcpPath, Proof]]) -> None:
    """Name the sides of a divided network; where it is so on all paths, once, and only one side is tried further."""
    divided = [(path, proof.split) for path, proof in found if proof.split]
    everywhere = len(divided) == len(found) and len({frozenset(sides) for _, sides in divided}) == 1
    for path, sides in divided[:1] if everywhere else divided:
        evidence = [line for node in sorted(sides[1]) for line in _evidence(board, path, node)]
        name = "" if everywhere else path.name
        board.divide(sides, path=name, evidence=evidence[:4], hint=_HINT_SIDES, out=everywhere)


def _ways(path: TcpPath, node: int) -> str:
    reached = any(other == node for _, other in path.failed)
    reaches = any(one == node for one, _ in path.failed)
    return "neither reaches others nor is reached" if reached and reaches else (
        "cannot be reached" if reached else "does not reach others"
    )  # fmt: skip


def _evidence(board: Board, path: TcpPath, node: int, peer: int | None = None) -> list[str]:
    lines = []
    for (one, other), why in sorted(path.failed.items()):
        if node in (one, other) and peer in (None, one, other):
            lines.append(f"{path.name}, {board.names[one]} to {board.names[other]}: {why}")
    return lines[:4]


_HINT_NODE = "check its cable, switch port, address and firewall"
_HINT_LARGE = (
    "small packets pass and large ones do not: compare the MTU of its interface, of its switch port and of the others; "
    "it may also lose many packets"
)
_HINT_PORT = "check its firewall, and what else uses the port; MASTER_PORT can be another one"
_HINT_SIDES = "check what is between the sides: an uplink, a spine switch, a route, a VLAN, a firewall between racks"
_HINT_LINK = "check routes, VLANs and firewalls between the two, and the switches on the way"
