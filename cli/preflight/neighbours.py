"""Who answers for an address on a link: what the kernel knows of its neighbours, by ARP and by IPv6's discovery."""

import asyncio
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from itertools import islice
from typing import NamedTuple

import psutil

_MOST_SEEN = 16_384
_MOST_CONTESTED = 64
_ANSWER_SECONDS = 2.0
_PART_BYTES = 65_536

# linux/netlink.h, linux/rtnetlink.h, linux/neighbour.h
_NEW_NEIGHBOUR, _GET_NEIGHBOURS, _REQUEST_ALL, _ERROR, _DONE = 28, 30, 0x301, 2, 3
_NEIGHBOURS_GROUP = 1 << 2
_HEADER, _NEIGHBOUR, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBHiHBB"), struct.Struct("=HH")
_ADDRESS, _MAC, _AGES = 1, 2, 3
_REACHABLE, _CONFIGURED = 0x02, 0x40 | 0x80
"""What somebody has configured says nothing of who answers: NUD_NOARP, NUD_PERMANENT."""

_GUID_PARTS = 8
"""Of the 20 bytes of an IPoIB interface, the last 8 name the port; the first change with its connections."""


class AddressSeen(NamedTuple):
    """An address, and the MAC address that answered for it on one of our interfaces."""

    interface: str
    address: str
    mac: str
    fresh: bool = True
    """It was confirmed while we watched; else the kernel's table had it before, perhaps of a host that is gone."""


class NeighbourRow(NamedTuple):
    """One row of the kernel's table."""

    seen: AddressSeen
    reachable: bool
    """It answered a short time ago."""
    confirmed_seconds: float
    """So long ago it answered."""


def plain_mac(text: str) -> str:
    """Return a MAC address as it is compared; empty where it is none: `lo` has zeros."""
    parts = text.lower().split(":")
    return ":".join(parts[-_GUID_PARTS:]) if len(parts) > 1 and any(part.strip("0") for part in parts) else ""


def own_macs() -> tuple[str, ...]:
    """Return the MAC addresses of all interfaces here: a host may answer for an address by any of them."""
    found = (plain_mac(each.address) for nic in psutil.net_if_addrs().values() for each in nic if _is_link(each.family))
    return tuple(sorted({mac for mac in found if mac}))


def _is_link(family: int) -> bool:
    return family == psutil.AF_LINK


class NeighbourWatch:
    """Remembers who answered since it began: two hosts that have one address take turns in the kernel's table."""

    def __init__(self) -> None:
        self._seen: set[AddressSeen] = set()
        self._began = time.monotonic()
        self._news = _subscribe()
        self._before = {each.seen for each in read_neighbours()}

    def begin(self) -> None:
        """Note each change from now on."""
        if self._news is not None:
            asyncio.get_running_loop().add_reader(self._news, self._read_news)

    def close(self) -> None:
        """Note nothing any more."""
        if self._news is not None:
            asyncio.get_running_loop().remove_reader(self._news)
            self._news.close()
            self._news = None

    def of(self, addresses: Collection[str]) -> list[AddressSeen]:
        """Return who answered for these addresses, and for any for which several answered."""
        self._note(read_neighbours())
        known = self._seen | {each._replace(fresh=False) for each in self._before - self._seen}
        counts = Counter((each.interface, each.address) for each in known)
        several = {address for (_, address), _ in islice((c for c in counts.items() if c[1] > 1), _MOST_CONTESTED)}
        return sorted(each for each in known if each.address in several or each.address in addresses)

    def _read_news(self) -> None:
        # An error is that the kernel had no room for all of them.
        with suppress(OSError, struct.error):
            while self._news is not None:
                found: list[NeighbourRow] = []
                _read_part(self._news.recv(_PART_BYTES, socket.MSG_DONTWAIT), found)
                self._note(found)

    def _note(self, found: Iterable[NeighbourRow]) -> None:
        """Note who answers. What the table said before does not count until it is confirmed."""
        since = time.monotonic() - self._began
        for each in found:
            is_new = each.seen not in self._before or (each.reachable and each.confirmed_seconds < since)
            if is_new and len(self._seen) < _MOST_SEEN:
                self._seen.add(each.seen)


def _subscribe() -> socket.socket | None:
    """Return a socket that says each change of the table; None where the kernel does not."""
    with suppress(OSError), ExitStack() as stack:
        news = stack.enter_context(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE))
        news.bind((0, _NEIGHBOURS_GROUP))
        stack.pop_all()
        return news
    return None


def read_neighbours() -> list[NeighbourRow]:
    """Return the kernel's table; nothing where it does not give it. Needs no rights."""
    found: list[NeighbourRow] = []
    with (
        suppress(OSError, struct.error),
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asked,
    ):
        asked.settimeout(_ANSWER_SECONDS)
        body = _NEIGHBOUR.pack(socket.AF_UNSPEC, 0, 0, 0, 0, 0, 0)
        asked.send(_HEADER.pack(_HEADER.size + len(body), _GET_NEIGHBOURS, _REQUEST_ALL, 1, 0) + body)
        while _read_part(asked.recv(_PART_BYTES), found):
            pass
    return found


def _read_part(part: bytes, found: list[NeighbourRow]) -> bool:
    """Add the rows of one part; return whether more will come."""
    at = 0
    while at + _HEADER.size <= len(part):
        size, kind, *_ = _HEADER.unpack_from(part, at)
        if kind in (_DONE, _ERROR) or size < _HEADER.size:
            return False
        row = _row(part[at + _HEADER.size : at + size]) if kind == _NEW_NEIGHBOUR else None
        if row is not None:
            found.append(row)
        at += _aligned(size)
    return True


def _row(message: bytes) -> NeighbourRow | None:
    _, _, _, index, state, _, _ = _NEIGHBOUR.unpack_from(message)
    fields = dict(_attributes(message[_NEIGHBOUR.size :]))
    address, mac, ages = fields.get(_ADDRESS, b""), fields.get(_MAC, b""), fields.get(_AGES, b"")
    if state & _CONFIGURED or len(address) not in (4, 16) or not mac or len(ages) < 4:
        return None
    with suppress(OSError):
        seen = AddressSeen(socket.if_indextoname(index), str(ip_address(address)), plain_mac(mac.hex(":")))
        (ticks,) = struct.unpack_from("=I", ages)
        return NeighbourRow(seen, bool(state & _REACHABLE), ticks / os.sysconf("SC_CLK_TCK")) if seen.mac else None
    return None


def _attributes(body: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(body):
        size, kind = _ATTRIBUTE.unpack_from(body, at)
        if size < _ATTRIBUTE.size:
            return
        yield kind, body[at + _ATTRIBUTE.size : at + size]
        at += _aligned(size)


def _aligned(size: int) -> int:
    return (size + 3) & ~3
