"""Finds the rank 0 that waits for the others inside `init_process_group` and has no process group yet.

Rank 0 hosts the store where the ranks meet, and waits there until all have come. Those that have already come have a
process group, and in it the address (torch_groups.py). So rank 0 of theirs is the process that listens at its port, if

1. no rank 0 that met there is known;
2. it has PyTorch loaded and no process group of its own;
3. the same process has started it and one of the others: a launcher that hosts the store is above its ranks.

Source: `_tcp_rendezvous_handler` and `_create_c10d_store` in torch/distributed/rendezvous.py.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from agent.errors import Gone
from agent.find.torch_groups import TorchGroup
from agent.proc.procfs import ProcFs
from agent.proc.socket_tables import Sockets
from shared.errors import NotPermitted

Key = tuple[int, int]
"""A process: its id and start."""

_MOST_ASKED = 64


def find_store_hosts(
    procfs: ProcFs, groups: Mapping[Key, TorchGroup], without: Iterable[Key], parents: Mapping[Key, int]
) -> dict[Key, TorchGroup]:
    """Return the group that each of them waits for, as rank 0, among the processes `without` one.

    `parents`: the process id of each one's parent.
    """
    waiting = dict(_waiting(groups, parents))
    found: dict[Key, TorchGroup] = {}
    asked = [key for key in without if parents.get(key) in {parent for parent, _ in waiting}]
    for key in asked[:_MOST_ASKED] if waiting else ():
        with suppress(Gone, NotPermitted):
            sockets = {procfs.link(key[0], f"fd/{fd}") for fd in procfs.fds(key[0])}
            table = Sockets(procfs, key[0])
            for (parent, port), group in waiting.items():
                listening = {f"socket:[{inode}]" for inode in table.listening(port)}
                if parent == parents[key] and listening & sockets:
                    found[key] = group
    return found


def _waiting(
    groups: Mapping[Key, TorchGroup], parents: Mapping[Key, int]
) -> Iterator[tuple[tuple[int, int], TorchGroup]]:
    """Iterate over stores without a rank 0: (parent of its ranks, port), and the group that rank 0 will have."""
    complete = {group.store for group in groups.values() if group.rank == 0}
    for key, group in groups.items():
        port = (group.store or "").rpartition(":")[2]
        if group.store not in complete and port.isdecimal() and key in parents and group.is_first:
            yield (parents[key], int(port)), group._replace(rank=0)
