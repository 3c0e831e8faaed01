"""Finds who listens on the port at which a job's ranks meet."""

from contextlib import suppress

from agent.errors import Gone
from agent.proc.socket_tables import sockets_of
from agent.sources.look_context import LookContext
from shared.errors import NotPermitted
from shared.wire.setup import Listener


def find_listener(context: LookContext, pid: int, port: int) -> Listener | None:
    """Return who listens on TCP `port` where process `pid` lives; None where nobody does. Raises Gone."""
    listening = context.sockets(pid).listening(port)
    if not listening:
        return None
    address = next(iter(listening.values()))
    for near in context.procfs.line(pid):  # a launcher may hold the store for its ranks
        with suppress(Gone, NotPermitted):
            if any(inode in listening for inode in sockets_of(context.procfs, near)):
                return Listener(address=address, pid=near, name=context.procfs.known_name(near), of_job=True)
    for inode, at in listening.items():
        holders = context.holders(f"socket:[{inode}]")
        if holders:
            return Listener(address=at, pid=holders[0][0], name=context.procfs.known_name(holders[0][0]))
    return Listener(address=address)
