"""A rank's sockets: to whom they lead, who is at the other end on this machine, and what waits in them."""

import ipaddress
import re
from collections.abc import Sequence

from agent.errors import Gone
from agent.find.choose_ranks import Rank
from agent.proc.socket_tables import SocketEntry, Sockets
from agent.proc.tcp_counters import bytes_carried
from agent.sources.look_context import LookContext
from shared.errors import NotPermitted
from shared.wire.snapshot import Holder, Socket

_MOST_HOLDERS = 4
_MOST_OTHER_ENDS = 64
"""Sockets of a rank whose other end is looked for: each costs a lookup, and a server may have thousands."""
_MOST_ASKED = 128
"""TCP sockets that are asked how much they have carried: a few microseconds each."""
_INODE = re.compile(r"socket:\[(\d{1,20})\]")

Held = tuple[int, str]
"""A descriptor and its target, `socket:[123]`."""


def sockets_of(context: LookContext, rank: Rank, held: Sequence[Held]) -> tuple[Socket, ...]:
    """Describe the sockets behind some descriptors of a rank; one that no table has is of kind `other`."""
    if not held:
        return ()
    pid, environment = rank.stat.pid, rank.environment
    try:
        table = context.sockets(pid)
    except (Gone, NotPermitted):
        return tuple(Socket(fd=fd, kind="other") for fd, _ in held)
    found: list[Socket] = []
    inodes = [(fd, 0 if (match := _INODE.fullmatch(target)) is None else int(match[1])) for fd, target in held]
    entries = [(fd, inode, table.get(inode)) for fd, inode in inodes]
    tcp = [fd for fd, _, entry in entries if entry is not None and entry.kind.startswith("tcp")]
    carried = bytes_carried(pid, tcp[:_MOST_ASKED]) if context.procfs.is_real else {}
    for fd, inode, entry in entries:
        if entry is None:
            found.append(Socket(fd=fd, kind="other"))
            continue
        ends = _other_end(context, table, inode, entry) if len(found) < _MOST_OTHER_ENDS else ()
        store = leads_to_store(entry, environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", ""))
        sent, received = carried[fd][:2] if fd in carried else (None, None)
        told = {**entry._asdict(), "sent_bytes": sent, "received_bytes": received}
        found.append(Socket(fd=fd, **told, to_store=store, other_end=ends))
    return tuple(found)


def leads_to_store(entry: SocketEntry, address: str, port: str) -> bool:
    """Does a connection lead to MASTER_ADDR:MASTER_PORT? A name is not looked up: that may take for ever."""
    host, _, remote_port = entry.remote.rpartition(":")
    if not entry.kind.startswith("tcp") or entry.state == "LISTEN" or not port or remote_port != port:
        return False
    try:
        wanted, found = ipaddress.ip_address(address), ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return True
    return wanted == found or (wanted.is_loopback and found.is_loopback)


def _other_end(context: LookContext, table: Sockets, inode: int, entry: SocketEntry) -> tuple[Holder, ...]:
    peer = context.unix_peers.get(inode) if entry.kind == "unix" else table.other_end(inode)
    if not peer or entry.state == "LISTEN":
        return ()
    pids = dict.fromkeys(pid for pid, _ in context.holders(f"socket:[{peer}]"))
    return tuple(Holder(pid=pid, name=context.procfs.known_name(pid)) for pid in list(pids)[:_MOST_HOLDERS])
