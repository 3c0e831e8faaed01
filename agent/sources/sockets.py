"""Reads the kernel's tables of sockets, /proc/PID/net/{tcp,tcp6,unix}: who talks to whom, in which state."""

import ipaddress
import struct
from collections.abc import Iterator
from typing import NamedTuple

from agent.errors import Gone
from agent.procfs import ProcFs
from shared.errors import NotPermitted

_MOST_BYTES = 8 * 1024 * 1024

# include/net/tcp_states.h
_STATES = {
    1: "ESTABLISHED", 2: "SYN_SENT", 3: "SYN_RECV", 4: "FIN_WAIT1", 5: "FIN_WAIT2", 6: "TIME_WAIT", 7: "CLOSE",
    8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN", 11: "CLOSING", 12: "NEW_SYN_RECV",
}  # fmt: skip
_UNIX_STATES = {1: "UNCONNECTED", 2: "CONNECTING", 3: "ESTABLISHED", 4: "DISCONNECTING"}
_UNIX_ACCEPTS = 0x10000


class SocketEntry(NamedTuple):
    """One row of a socket table."""

    kind: str
    local: str
    remote: str
    state: str


def read_sockets(procfs: ProcFs, pid: int) -> dict[int, SocketEntry]:
    """Return the sockets of a process's network namespace by inode."""
    found: dict[int, SocketEntry] = {}
    for kind, parse in (("tcp", parse_inet), ("tcp6", parse_inet), ("udp", parse_inet), ("unix", parse_unix)):
        try:
            table = procfs.text(pid, f"net/{kind}", most=_MOST_BYTES)
        except (Gone, NotPermitted):
            continue
        found.update(parse(kind, table))
    return found


def parse_inet(kind: str, table: str) -> Iterator[tuple[int, SocketEntry]]:
    """Read /proc/net/tcp, tcp6 or udp."""
    #  0: 0100007F:1F90 0100007F:D2A4 01 00000000:00000000 00:00000000 00000000  1000  0 43210 1 …
    for line in table.splitlines()[1:]:
        fields = line.split()
        try:
            state = _STATES.get(int(fields[3], 16), fields[3])
            yield int(fields[9]), SocketEntry(kind, _address(fields[1]), _address(fields[2]), state)
        except (IndexError, ValueError):
            continue


def parse_unix(kind: str, table: str) -> Iterator[tuple[int, SocketEntry]]:
    """Read /proc/net/unix."""
    # ffff8f2a: 00000002 00000000 00010000 0001 01 32109 /run/user/1000/bus
    for line in table.splitlines()[1:]:
        fields = line.split(None, 7)
        try:
            listens = int(fields[3], 16) & _UNIX_ACCEPTS
            state = "LISTEN" if listens else _UNIX_STATES.get(int(fields[5], 16), fields[5])
            path = fields[7] if len(fields) > 7 else ""
            yield int(fields[6]), SocketEntry(kind, path, "", state)
        except (IndexError, ValueError):
            continue


def _address(text: str) -> str:
    """Read `0100007F:1F90`: 32-bit words in the machine's byte order, then the port."""
    host, _, port = text.partition(":")
    words = struct.pack(f"={len(host) // 8}I", *(int(host[i : i + 8], 16) for i in range(0, len(host), 8)))
    address = ipaddress.ip_address(words)
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return f"{mapped}:{int(port, 16)}" if mapped is not None else f"[{address}]:{int(port, 16)}"
    return f"{address}:{int(port, 16)}"
