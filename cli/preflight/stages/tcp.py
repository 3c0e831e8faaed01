"""TCP both ways between nodes, on each interface that they share and on MASTER_PORT: who fails, and of what.

An interface fails on a pair where a port does not answer, where little arrives and much does not, or where many more
packets are lost than on most pairs. Whoever fails on an interface is tried no further: the cause is known by then, and
a trial with it would only time out.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from pydantic import ValidationError

from cli.preflight.board import Board, StageNotes
from cli.preflight.channel import Message
from cli.preflight.node_facts import NOT_FOR_JOBS
from cli.preflight.reach import Reached, Target
from cli.preflight.search.proof import Members, Proof, Tried
from cli.preflight.search.rounds import Breadth, waves
from cli.preflight.stages.network_causes import Flow, NetworkCause, cause_of, is_late, is_lossy
from cli.preflight.stages.searching import search
from shared.answer.preflight import PreflightKind
from shared.errors import UnhangError

_ANSWER_SECONDS = 15.0
_PORTS = 8
"""On each interface, as the kernel gives them: of the range that jobs get theirs from. Where half of the ports are
dropped, all of these are open once in 256 times."""

_FEW_NODES = 16
"""Of so many all pairs are tried."""

_IN_USE = "address already in use"

Places = dict[int, tuple[str, tuple[int, ...]]]
"""By node: the address and the ports where it listens."""


@dataclass
class TcpPath:
    """One interface or port, and what listens there."""

    name: str
    places: Places
    is_port: bool = False
    silent: frozenset[int] = frozenset()
    """Nodes where something else of the job listens: they are connected to, and answer nothing."""
    flows: dict[Members, Reached] = field(default_factory=dict)
    """What came of it, by who sent and who received."""

    def usual_loss(self) -> float:
        """Return which share of packets is lost in good flows."""
        return _usual([each.resent / each.sent for each in self.flows.values() if each.sent])

    def usual_trip(self) -> float:
        """Return how long an answer takes in good flows."""
        return _usual([each.trip_seconds for each in self.flows.values() if each.trip_seconds])

    def working(self, pairs: Sequence[Members]) -> list[bool]:
        """Say of each pair whether it works both ways, measured by what is usual here."""
        loss, trip = self.usual_loss(), self.usual_trip()
        return [all(self._works(way, loss, trip) for way in (pair, pair[::-1])) for pair in pairs]

    def _works(self, way: Members, loss: float, trip: float) -> bool:
        found = self.flows.get(way)
        if found is None or found.failed or found.large:
            return False
        return not is_lossy(found, loss) and not is_late(found, trip)


def _usual(values: Sequence[float]) -> float:
    """Return the lower quartile: two bad nodes of six are in most pairs, and just under half in three of four."""
    return sorted(values)[len(values) // 4] if values else 0.0


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
        own = [(path, link.hello.facts.address_of(path.name)) for path in paths[:-1]]
        wanted = [(path, address, 0) for path, address in own if address for _ in range(_PORTS)]
        wanted.append((paths[-1], link.address, port))
        answer = await _quietly(board, node, "listen", {"places": [(address, at) for _, address, at in wanted]})
        found = list(answer.get("ports", ())) or ["it did not listen"] * len(wanted)
        for (path, address, at), got in zip(wanted, found, strict=False):
            if isinstance(got, int):
                path.places[node] = (address, (*path.places.get(node, (address, ()))[1], got))
            elif path.is_port and _IN_USE in str(got).lower():
                path.places[node], path.silent = (address, (at,)), path.silent | {node}
            else:
                board.untested.append(f"{path.name} on {board.names[node]}: it cannot listen there: {got}")

    await asyncio.gather(*(one(node) for node in board.members))
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
        await asyncio.gather(*(_one_way(board, path, *way) for pair in wave for way in (pair, pair[::-1])))
        return [*path.working(wave)]

    own, nodes, tried = StageNotes(), sorted(path.places), list[Tried]()
    what = f"{path.name}: "
    proof = await search(board, nodes, tried, attempt, stage=own, what=what, breadth=Breadth.FAR_PAIRS)
    if len(nodes) <= _FEW_NODES and not path.is_port:
        left = [pair for pair in combinations(sorted(proof.sound), 2) if pair not in proof.met]
        for wave in waves(left):
            own.trials += len(wave)
            passed = await attempt(wave)
            tried += [Tried(each, ok) for each, ok in zip(wave, passed, strict=True) if ok is not None]
        proof = await search(board, nodes, tried, attempt, stage=own, what=what, breadth=Breadth.FAR_PAIRS)
    stage.trials += own.trials
    stage.rounds = max(stage.rounds, own.rounds)
    return proof


async def _one_way(board: Board, path: TcpPath, one: int, other: int) -> None:
    """Connect one node with another, and keep what came of it."""
    address, ports = path.places[other]
    own = "" if path.is_port else path.places[one][0]
    target = Target(path=path.name, address=address, ports=ports, own=own, echoes=other not in path.silent)
    try:
        answer = await board.links[one].ask("connect", {"targets": [target.model_dump()]}, _ANSWER_SECONDS)
        path.flows[one, other] = Reached.model_validate(answer["found"][path.name])
    except (UnhangError, ValidationError, KeyError, TypeError) as error:
        path.flows[one, other] = Reached(failed=dict.fromkeys(ports, str(error)[:200]))


def _accuse(board: Board, found: list[tuple[TcpPath, Proof]], stage: StageNotes) -> None:
    interfaces = [(path, proof) for path, proof in found if not path.is_port] or found
    everywhere = {
        node
        for node in set().union(*(proof.bad for _, proof in interfaces))
        if all(node in proof.bad for path, proof in interfaces if node in path.places) and not board.lost(node)
    }
    for node in sorted(everywhere):
        flows = [flow for path, _ in interfaces for flow in _flows(board, path, node)]
        cause = cause_of(flows)
        where = ", on any interface" if len(interfaces) > 1 else ""
        text = f"{board.names[node]} {cause.text}{where}{_told(cause)}"
        board.accuse(PreflightKind.NODE_FAILS, [node], text, evidence=cause.evidence, hint=cause.hint, out=True)
    _divide(board, found)
    known_links = set[Members]()
    for path, proof in sorted(found, key=lambda each: each[0].is_port):
        known = everywhere | (board.out if path.is_port else set())  # of that, the port is no news
        _accuse_on(board, path, proof, known, known_links if path.is_port else set())
        known_links |= proof.bad_links
    if any(proof.bad or proof.bad_links or proof.unknown or proof.split for _, proof in found):
        stage.outcome = "failed"
    elif not found:
        stage.outcome = "skipped"
        board.untested.append("TCP: the nodes have no address at which they could listen")
    stage.text = ", ".join(f"{path.name} {_in_words(proof)}" for path, proof in found)


def _told(cause: NetworkCause) -> str:
    return f": {cause.detail}" if cause.detail else ""


def _in_words(proof: Proof) -> str:
    failed = len(proof.bad | proof.unknown) + len(proof.bad_links)
    return "divided" if proof.split else "passed" if not failed else f"failed ({failed})"


def _accuse_on(board: Board, path: TcpPath, proof: Proof, known: set[int], known_links: set[Members]) -> None:
    for node in sorted(node for node in proof.bad - known if not board.lost(node)):
        cause = cause_of(_flows(board, path, node))
        text = f"{board.names[node]} {cause.text} on {path.name}, and works on other interfaces or ports{_told(cause)}"
        board.accuse(
            PreflightKind.PATH_FAILS, [node], text, path=path.name, evidence=cause.evidence,
            hint=_HINT_PORT if path.is_port else cause.hint, out=not path.is_port,
        )  # fmt: skip
    for link in sorted(proof.bad_links - known_links):
        one, other = board.hosts(link)
        cause = cause_of(_flows(board, path, *link))
        text = f"{one} and {other} do not work together on {path.name}; both do with other nodes{_told(cause)}"
        hint = _HINT_LINK if cause.is_silence else cause.hint
        board.accuse(PreflightKind.PATH_LINK_FAILS, link, text, path=path.name, evidence=cause.evidence, hint=hint)
    unknown = sorted(proof.unknown - known)
    if unknown:
        evidence = [line for node in unknown for line in cause_of(_flows(board, path, node)).evidence[:2]]
        text = f"{', '.join(board.hosts(unknown))} do not exchange TCP on {path.name}"
        board.accuse(PreflightKind.NOT_TOLD_APART, unknown, text, path=path.name, evidence=evidence)


def _divide(board: Board, found: list[tuple[TcpPath, Proof]]) -> None:
    """Name the sides of a divided network; where it is so on all paths, once, and only one side is tried further."""
    divided = [(path, proof.split) for path, proof in found if proof.split]
    everywhere = len(divided) == len(found) and len({frozenset(sides) for _, sides in divided}) == 1
    for path, sides in divided[:1] if everywhere else divided:
        evidence = [line for node in sorted(sides[1]) for line in cause_of(_flows(board, path, node)).evidence[:2]]
        name = "" if everywhere else path.name
        board.divide(sides, path=name, evidence=evidence[:4], hint=_HINT_SIDES, out=everywhere)


def _flows(board: Board, path: TcpPath, node: int, peer: int | None = None) -> Sequence[Flow]:
    """Return what was seen of a node there, as others and it were connected; `peer`: with that one alone."""

    usual = (path.usual_loss(), path.usual_trip())
    mtu = next((nic.mtu for nic in board.links[node].hello.facts.nics if nic.name == path.name), None)

    def of_it() -> Iterator[Flow]:
        for (one, other), reached in sorted(path.flows.items()):
            if node in (one, other) and peer in (None, one, other):
                address, ports = path.places[other]
                names = (board.names[one], board.names[other])
                yield Flow(path.name, *names, address, len(ports), reached, *usual, is_to_it=other == node, mtu=mtu)

    return tuple(of_it())


_HINT_PORT = "check its firewall, and what else uses the port; MASTER_PORT can be another one"
_HINT_SIDES = "check what is between the sides: an uplink, a spine switch, a route, a VLAN, a firewall between racks"
_HINT_LINK = "check routes, VLANs and firewalls between the two, and the switches on the way"
