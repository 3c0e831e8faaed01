"""Reads the kernel's tables of sockets, /proc/PID/net/{tcp,tcp6,unix}: who talks to whom, in which state."""

import ipaddress
import os
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from agent.errors import Gone
from agent.proc.procfs import ProcFs
from shared.errors import NotPermitted

_MOST_BYTES = 8 * 1024 * 1024

# include/net/tcp_states.h
_STATES = {
    1: "ESTABLISHED", 2: "SYN_SENT", 3: "SYN_RECV", 4: "FIN_WAIT1", 5: "FIN_WAIT2", 6: "TIME_WAIT", 7: "CLOSE",
    8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN", 11: "CLOSING", 12: "NEW_SYN_RECV",
}  # fmt: skip
_UNIX_STATES = {1: "UNCONNECTED", 2: "CONNECTING", 3: "ESTABLISHED", 4: "DISCONNECTING"}
_SYN_SENT = b"02"
_UNIX_ACCEPTS = 0x10000
_MAPPED = b"0000000000000000FFFF0000"
"""How an IPv4 address begins in the table of IPv6 (::ffff:a.b.c.d), in little-endian words."""
_INET = ("tcp", "tcp6", "udp")
_SOCKET = re.compile(r"socket:\[(\d{1,20})\]")
"""What a descriptor of one leads to."""


def holds_sockets(procfs: ProcFs, pid: int) -> bool:
    """Has a process any socket open, as far as we may know? Raises Gone.

    Who has none needs no table: in each of TCP's the kernel takes 5 ms to find that most places are free.
    """
    with suppress(NotPermitted):
        return any(sockets_of(procfs, pid))
    return True


def sockets_of(procfs: ProcFs, pid: int) -> Iterator[int]:
    """Yield the inode of each socket that a process has open, by descriptor. Raises Gone or NotPermitted."""
    return (inode for _, inode in fds_of_sockets(procfs, pid))


def fds_of_sockets(procfs: ProcFs, pid: int) -> Iterator[tuple[int, int]]:
    """Yield descriptor and inode of each socket that a process has open. Raises Gone or NotPermitted."""
    for fd in procfs.fds(pid):
        match = None
        with suppress(Gone):
            match = _SOCKET.fullmatch(procfs.link(pid, f"fd/{fd}"))
        if match is not None:
            yield fd, int(match[1])


class SocketEntry(NamedTuple):
    """One row of a socket table."""

    kind: str
    local: str
    remote: str
    state: str
    unsent_bytes: int = 0
    unread_bytes: int = 0
    retransmits: int = 0


class Sockets:
    """The sockets of one network namespace; a row is read when it is needed."""

    def __init__(self, procfs: ProcFs, pid: int) -> None:
        self._rows: dict[bytes, tuple[str, list[bytes]]] = {}
        self._ends: dict[tuple[bytes, bytes], int] | None = None
        self._unaccepted: set[tuple[bytes, bytes]] = set()
        for kind in (*_INET, "unix"):
            try:
                table = procfs.read(pid, f"net/{kind}", most=_MOST_BYTES)
            except (Gone, NotPermitted):
                continue
            self.add(kind, table)

    def add(self, kind: str, table: bytes) -> None:
        """Take in one table of the kernel's, such as /proc/net/tcp."""
        inode = 9 if kind in _INET else 6
        for line in table.splitlines()[1:]:
            fields = line.split(None, 10 if kind in _INET else 7)
            if len(fields) > inode:
                self._rows[fields[inode]] = (kind, fields)
            if kind in _INET and fields[3:4] == [b"01"] and fields[inode:][:1] == [b"0"]:
                self._unaccepted.add(_ends(fields))

    def listening(self, port: int) -> dict[int, str]:
        """Return the inodes of the sockets that listen on TCP `port`, with their addresses."""
        end = b":%04X" % port
        rows = ((inode, fields) for inode, (kind, fields) in self._rows.items() if kind.startswith("tcp"))
        mine = [int(i) for i, fields in rows if i.isdigit() and fields[3] == b"0A" and fields[1].endswith(end)]
        found = {inode: self.get(inode) for inode in mine}
        return {inode: entry.local for inode, entry in found.items() if entry is not None}

    def other_end(self, inode: int) -> int | None:
        """Return the inode of the socket on this machine that a TCP socket is connected to; None: on another."""
        if self._ends is None:
            tcp = ((own, fields) for own, (kind, fields) in self._rows.items() if kind.startswith("tcp"))
            self._ends = {_ends(fields): int(own) for own, fields in tcp if own.isdigit()}
        kind, fields = self._rows.get(b"%d" % inode, ("", []))
        return self._ends.get(_ends(fields)[::-1]) if kind.startswith("tcp") else None

    def accepting(self, inode: int) -> list[int]:
        """Return the inodes of sockets that should accept the connection of a TCP socket; none where it is accepted.

        A backlog that is full has no entry for it: then only a socket that listens at that very address is told.
        """
        kind, fields = self._rows.get(b"%d" % inode, ("", []))
        refused = fields[3:4] == [_SYN_SENT]
        if not kind.startswith("tcp") or not (refused or _ends(fields)[::-1] in self._unaccepted):
            return []
        there = _ends(fields)[1]
        port = int(there.rpartition(b":")[2], 16)
        at = {each: _ends(self._rows[b"%d" % each][1])[0] for each in self.listening(port)}
        exact = [each for each, address in at.items() if address == there]  # goes before those of all addresses
        if exact or refused:
            return exact
        return [each for each, address in at.items() if not address.rpartition(b":")[0].strip(b"0")]

    def get(self, inode: int) -> SocketEntry | None:
        """Return the socket with this inode; None where no table has it, or not with sense."""
        kind, fields = self._rows.get(b"%d" % inode, ("", []))
        try:
            return _inet(kind, fields) if kind in _INET else _unix(fields) if kind else None
        except (IndexError, ValueError, struct.error):
            return None


def _ends(fields: list[bytes]) -> tuple[bytes, bytes]:
    """Return both addresses of a row; IPv4 looks the same in both tables."""
    return fields[1].removeprefix(_MAPPED), fields[2].removeprefix(_MAPPED)


def _inet(kind: str, fields: list[bytes]) -> SocketEntry:
    #  0: 0100007F:1F90 0100007F:D2A4 01 00000000:00000000 00:00000000 00000000  1000  0 43210 1 …
    state = _STATES.get(int(fields[3], 16), fields[3].decode())
    unsent, _, unread = fields[4].partition(b":")
    return SocketEntry(
        kind,
        _address(fields[1].decode()),
        _address(fields[2].decode()),
        state,
        unsent_bytes=int(unsent, 16),
        unread_bytes=int(unread, 16),
        retransmits=int(fields[6], 16),
    )


def _unix(fields: list[bytes]) -> SocketEntry:
    # ffff8f2a: 00000002 00000000 00010000 0001 01 32109 /run/user/1000/bus
    listens = int(fields[3], 16) & _UNIX_ACCEPTS
    state = "LISTEN" if listens else _UNIX_STATES.get(int(fields[5], 16), fields[5].decode())
    return SocketEntry("unix", os.fsdecode(fields[7]) if len(fields) > 7 else "", "", state)


def _address(text: str) -> str:
    """Read `0100007F:1F90`: 32-bit words in the machine's byte order, then the port."""
    host, _, port = text.partition(":")
    words = struct.pack(f"={len(host) // 8}I", *(int(host[i : i + 8], 16) for i in range(0, len(host), 8)))
    address = ipaddress.ip_address(words)
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return f"{mapped}:{int(port, 16)}" if mapped is not None else f"[{address}]:{int(port, 16)}"
    return f"{address}:{int(port, 16)}"
