"""The worker server that `torch.distributed.debug` has opened in a rank, on a TCP port of its own.

The port is any that was free, and the job tells it only to its own store. To try the ports that a rank listens on is
out of the question: a connection that NCCL or Gloo does not expect may end a job. So the server's object is looked for
in the rank's memory, by the vtable of `c10d::control_plane::WorkerServer`, and in it the number of one of the ports
that this rank listens on. Source: torch/csrc/distributed/c10d/control_plane/WorkerServer.hpp.

Searching takes some tenths of a second, so that it is done only for a rank whose record cannot be had otherwise and in
which threads of such a server run, and once for each set of ports that it listens on.
"""

import re
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.memory.elf_symbols import find_vtable
from agent.proc.memory.mappings import loaded_files, read_mappings, writable_data
from agent.proc.memory.process_memory import ProcessMemory, open_memory
from agent.proc.memory.search import search_words
from agent.proc.procfs import FEW_THREADS, ProcFs
from agent.proc.remembered import Remembered
from agent.proc.socket_tables import Sockets, sockets_of
from agent.sources.look_context import LookContext
from agent.tools.netns import connect
from shared.errors import NotPermitted
from shared.missing import Reason
from shared.server.addresses import Address
from shared.wire.trace import Origin

_LIBRARY = re.compile(r"libtorch_cpu\.so")
_VTABLE = b"_ZTVN4c10d13control_plane12WorkerServerE"
_OBJECT_BYTES = 2048
"""More than the object has, which consists of an HTTP server, its thread and its port: 1,048 in PyTorch 2.13."""
_THREAD = "pt_workerserver"
"""What each thread of a server is called, in all versions that have the port: the one that accepts, and those that
answer."""
_MOST_OBJECTS = 64
_MOST_BYTES = 2 * 1024 * 1024 * 1024
_SEARCH_SECONDS = 2.0
# [::]:40123 0.0.0.0:40123 127.0.0.1:40123
_ANYWHERE = {"[::]": "::1", "0.0.0.0": "127.0.0.1"}


@dataclass(frozen=True)
class DebugServer:
    """One worker server: the one address, on the rank's network, at which this process alone listens."""

    procfs: ProcFs
    pid: int
    address: Address
    inode: int
    origin: Origin = Origin.DEBUG_SERVER

    def connect(self, deadline: Deadline) -> socket.socket:
        """Connect to the rank (worker_server.RankServer); not where others share the port, who might answer."""
        channel = connect(self.address, self.procfs, self.pid, deadline)
        try:
            listening = Sockets(self.procfs, self.pid).listening(self.address.port)
            if set(listening) != {self.inode} or self.inode not in sockets_of(self.procfs, self.pid):
                told = f"port {self.address.port} of rank process {self.pid} is not, or not only, its own any more"
                raise Unavailable(Reason.REFUSED, told)
        except BaseException:
            channel.close()
            raise
        return channel


class DebugServerFinder:
    """Finds such servers, and remembers them. Safe from many threads."""

    def __init__(self) -> None:
        self._known = Remembered[DebugServer | None]()

    def find(self, rank: Rank, context: LookContext, deadline: Deadline) -> DebugServer | None:
        """Return the server of a rank; None where it has none, or it was not found in time. Raises Gone."""
        try:
            ports = _own_ports(context, rank.stat.pid)
            key = rank.key, frozenset(inode for inode, _ in ports.values())
            if not ports or (key not in self._known and not _may_serve(context.procfs, rank.stat.pid)):
                return None
        except NotPermitted:
            return None
        return self._known.once(key, lambda: _server(rank, context.procfs, ports, deadline))


def _server(rank: Rank, procfs: ProcFs, ports: dict[int, tuple[int, str]], deadline: Deadline) -> DebugServer | None:
    with suppress(NotPermitted, Unavailable):
        port = _port_in_memory(rank, procfs, frozenset(ports), deadline.at_most(_SEARCH_SECONDS))
        if port is not None:
            inode, host = ports[port]
            return DebugServer(procfs, rank.stat.pid, Address(_ANYWHERE.get(host, host), port), inode)
    return None


def _own_ports(context: LookContext, pid: int) -> dict[int, tuple[int, str]]:
    """Return the TCP ports that a process alone listens on: port -> the socket's inode, and the host it is bound to."""
    own = frozenset(sockets_of(context.procfs, pid))
    if not own:
        return {}
    sockets, found = context.sockets(pid), {}
    for inode in own:
        entry = sockets.get(inode)
        if entry is not None and entry.state == "LISTEN" and entry.kind.startswith("tcp"):
            host, _, port = entry.local.rpartition(":")
            if len(sockets.listening(int(port))) == 1:
                found[int(port)] = inode, host
    return found


def _may_serve(procfs: ProcFs, pid: int) -> bool:
    """Does a thread of a server run in a process, as far as can be told? Raises Gone."""
    tids = procfs.tids(pid, FEW_THREADS + 1)
    if len(tids) > FEW_THREADS:
        return True
    for tid in tids:
        with suppress(Gone, NotPermitted):
            if procfs.text(pid, f"task/{tid}/comm", most=64) == _THREAD:
                return True
    return False


def _port_in_memory(rank: Rank, procfs: ProcFs, ports: frozenset[int], deadline: Deadline) -> int | None:
    """Return the one of `ports` that a server's object holds; None for none, or several. Raises as open_memory does."""
    with open_memory(procfs, rank.stat, deadline, most_bytes=_MOST_BYTES) as memory:
        regions = read_mappings(procfs, rank.stat.pid)
        vtables = (find_vtable(memory.read_some, library.base, _VTABLE) for library in loaded_files(regions, _LIBRARY))
        wanted = [vtable for vtable in vtables if vtable is not None]
        if not wanted:
            return None
        result = search_words(procfs, memory, writable_data(regions), wanted, most_found=_MOST_OBJECTS)
        found = {port for word in result.found for port in _numbers(memory, word.address) & ports}
    return found.pop() if len(found) == 1 else None


def _numbers(memory: ProcessMemory, address: int) -> frozenset[int]:
    data = memory.read_some(address, _OBJECT_BYTES)
    return frozenset(struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4]))
