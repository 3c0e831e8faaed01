"""Addresses that two hosts have: packets for one reach the other, and a node that is sound seems to fail.

A host with the address of a node need not take part, or its own report may never arrive. What gives it away is that
the other nodes' kernels saw two MAC addresses answer for one address: the node's own, and another.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import NamedTuple

from cli.preflight.board import Board
from cli.preflight.coordinator import Arrival
from cli.preflight.neighbours import AddressSeen
from cli.preflight.stages.compare_facts import same_addresses
from shared.answer.preflight import PreflightKind
from shared.errors import UnhangError

_MOST_ASKED = 64
"""Nodes that are asked whom they saw: of a thousand, a few have met everyone."""

_ANSWER_SECONDS = 5.0
_MOST_EVIDENCE = 4
_HINT = "give each node an address of its own; until then packets for one reach the other"
_HINT_MAC = f"look the MAC up in the switches' tables, and {_HINT}"


_SeenBy = Mapping[int, Sequence[AddressSeen]]
"""Who answered for which address, by the node that saw it."""


class SharedAddress(NamedTuple):
    """An address of a node for which another host answers as well."""

    node: int
    interface: str
    address: str
    mac: str
    """Of the other host."""
    other: int | None
    """The node that the other host is; None: no node has reported that MAC address."""
    evidence: tuple[tuple[int, str, str], ...]
    """Which node saw which MAC address answer, and on which interface."""


class ContestedAddress(NamedTuple):
    """An address that no node has reported, and for which several hosts answer."""

    address: str
    macs: tuple[str, ...]
    evidence: tuple[tuple[int, str, str], ...]


async def find_shared_addresses(board: Board) -> None:
    """Name nodes for whose address another host answers; they are not tried any more, and not called bad."""
    for name, address, nodes in same_addresses(_addresses(board)):
        if not _are_known(board, nodes):
            text = f"{board.few(nodes)} have the same address {address} on {name}"
            board.accuse(PreflightKind.SAME_ADDRESS, nodes, text, path=name, hint=_HINT, out=True)
    seen = await _seen(board)
    shared, contested = list(shared_addresses(board.arrivals, seen)), list(contested_addresses(board.arrivals, seen))
    silent = [node for node in range(len(board.names)) if node not in board.links and node not in board.arrivals]
    if len(silent) > sum(each.other is None for each in shared) + sum(len(each.macs) for each in contested):
        silent = []
    for each in shared:
        both = sorted({each.node, *(silent if each.other is None else [each.other])})
        if not _are_known(board, both):
            _accuse(board, each, both)
    for found in contested if silent and not _are_known(board, silent) else ():
        text = (
            f"hosts with MAC {' and '.join(found.macs)} have the same address {found.address}; {board.few(silent)} did "
        )
        text += "not report and may be one of them"
        evidence = [f"{board.names[node]} saw {mac} on {nic}" for node, mac, nic in found.evidence]
        board.accuse(PreflightKind.SAME_ADDRESS, silent, text, evidence=evidence, hint=_HINT_MAC, out=True)


def _are_known(board: Board, nodes: Sequence[int]) -> bool:
    hosts = set(board.hosts(nodes))
    return any(each.kind is PreflightKind.SAME_ADDRESS and hosts <= set(each.hosts) for each in board.findings)


def _addresses(board: Board) -> dict[int, Mapping[str, str]]:
    return {node: each.addresses for node, each in board.arrivals.items() if node < len(board.names)}


def _accuse(board: Board, shared: SharedAddress, nodes: Sequence[int]) -> None:
    name = board.names[shared.node]
    text = f"{shared.address} is the address of {name}, and a host with MAC {shared.mac} answers for it as well"
    if shared.other is not None:
        text += f": {board.names[shared.other]}"
    elif silent := [node for node in nodes if node != shared.node]:
        text += f"; {board.few(silent)} did not report and may be that host"
    evidence = [f"{board.names[node]} saw {mac} on {nic}" for node, mac, nic in shared.evidence]
    board.accuse(
        PreflightKind.SAME_ADDRESS, nodes, text, path=shared.interface, evidence=evidence, hint=_HINT_MAC, out=True
    )


async def _seen(board: Board) -> dict[int, list[AddressSeen]]:
    """Ask nodes who answered for the addresses of all."""
    addresses = sorted({address for each in _addresses(board).values() for address in each.values()})
    step = max(1, len(board.members) // _MOST_ASKED)

    async def ask(node: int) -> list[AddressSeen]:
        with suppress(UnhangError, TypeError, ValueError):
            answer = await board.links[node].ask("neighbours", {"addresses": addresses}, _ANSWER_SECONDS)
            return [
                AddressSeen(str(nic), str(ip), str(mac), fresh is True)
                for nic, ip, mac, fresh in answer.get("seen", ())
            ]
        return []

    asked = board.members[::step] if len(board.names) > 1 else ()
    return dict(zip(asked, await asyncio.gather(*map(ask, asked)), strict=True))


def shared_addresses(nodes: Mapping[int, Arrival], seen: _SeenBy) -> Iterator[SharedAddress]:
    """Yield the addresses for which another host answered as well as the node that has it.

    Proxies and routers answer for many addresses, and by them a node's own MAC address is never seen. So it counts only
    where the node's own was seen, on an interface that leads to nodes themselves, and the other one answers for no
    further node. The other must have answered during the preflight: before, it may have had the address rightly.
    """
    owners = _owners(nodes)
    macs = {node: frozenset(each.macs) for node, each in nodes.items()}
    direct = _direct(nodes, seen)
    rows = [(observer, each) for observer, found in sorted(seen.items()) for each in found if each.address in owners]
    answered: dict[str, list[tuple[int, AddressSeen]]] = {}
    answers_for: dict[str, set[int]] = {}
    for observer, each in rows:
        node, _ = owners[each.address]
        if (observer, each.interface) in direct and observer != node:
            answered.setdefault(each.address, []).append((observer, each))
            answers_for.setdefault(each.mac, set()).add(node)
    for address, found in sorted(answered.items()):
        node, interface = owners[address]
        others = {each.mac for _, each in found if each.fresh} - macs[node]
        own = [(observer, each.mac, each.interface) for observer, each in found if each.mac in macs[node]]
        for mac in sorted(others) if own else ():
            other = next((each for each in macs if mac in macs[each]), None)
            if answers_for[mac] - {other} == {node}:
                theirs = [(observer, each.mac, each.interface) for observer, each in found if each.mac == mac]
                evidence = (*own[:_MOST_EVIDENCE], *theirs[:_MOST_EVIDENCE])
                yield SharedAddress(node, interface, address, mac, other, evidence)


def contested_addresses(nodes: Mapping[int, Arrival], seen: _SeenBy) -> Iterator[ContestedAddress]:
    """Yield the addresses for which one node saw several hosts answer that are no node which has reported."""
    reported = {address for each in nodes.values() for address in each.addresses.values()}
    macs = {mac for each in nodes.values() for mac in each.macs}
    direct = _direct(nodes, seen)
    found: dict[str, dict[str, tuple[int, str, str]]] = {}
    for observer, rows in sorted(seen.items()):
        for interface, address in sorted({(each.interface, each.address) for each in rows}):
            there = [each for each in rows if each[:2] == (interface, address) and not each.mac.startswith(_VIRTUAL)]
            others = {each.mac for each in there} - macs if any(each.fresh for each in there) else set[str]()
            if len(others) > 1 and (observer, interface) in direct and address not in reported and _is_global(address):
                for mac in sorted(others):
                    found.setdefault(address, {}).setdefault(mac, (observer, mac, interface))
    for address, by_mac in sorted(found.items()):
        yield ContestedAddress(address, tuple(sorted(by_mac)), tuple(by_mac[mac] for mac in sorted(by_mac)))


_VIRTUAL = "00:00:5e:00:0"
"""Of routers that stand in for one another (RFC 5798)."""


def _direct(nodes: Mapping[int, Arrival], seen: _SeenBy) -> set[tuple[int, str]]:
    """Return by which interface of a node another was seen by its own MAC address."""
    owners = _owners(nodes)
    return {
        (observer, each.interface)
        for observer, found in seen.items()
        for each in found
        if each.address in owners and each.mac in nodes[owners[each.address][0]].macs
    }


def _owners(nodes: Mapping[int, Arrival]) -> dict[str, tuple[int, str]]:
    """Return which node has an address, on which interface; without what several report, and local ones."""
    found: dict[str, list[tuple[int, str]]] = {}
    for node, each in nodes.items():
        for name, address in each.addresses.items():
            if each.macs and _is_global(address):
                found.setdefault(address, []).append((node, name))
    return {address: owners[0] for address, owners in found.items() if len(owners) == 1}


def _is_global(address: str) -> bool:
    try:
        read = ip_address(address)
    except ValueError:
        return False
    return not read.is_link_local and not read.is_loopback
