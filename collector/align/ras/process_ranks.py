"""Which rank a process of a RAS report is. RAS knows processes by address and by the pid that they see themselves.

1. By address and pid, where a node's agent has told its addresses.
2. By pid alone, where most of an unknown address's pids are those of exactly one node that has not told its addresses.
3. By number: in the communicator of the whole job a rank is its global rank, which holds for those not yet joined as
   long as nobody who is joined speaks against it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from collector.align.thresholds import is_majority
from shared.wire.ras import Communicator, RasNetwork
from shared.wire.snapshot import Identity, NodeSnapshot, RankSnapshot

Home = tuple[str, int]
"""A process: an address or a node's name, and a pid as it is known there."""


class ProcessesOfRanks:
    """The processes of a job's ranks, by every name that anybody has for them."""

    def __init__(self, chosen: Mapping[int, tuple[RankSnapshot, ...]], snapshots: Sequence[NodeSnapshot]) -> None:
        self._ranks: dict[Home, int] = {}
        self._nameless: dict[str, dict[int, int]] = defaultdict(dict)
        addresses: dict[str, set[str]] = defaultdict(set)
        inner: dict[Home, int] = {}
        for snapshot in snapshots:
            if snapshot.ras is not None and snapshot.host is not None:
                addresses[snapshot.host].update(snapshot.ras.addresses)
                inner.update({(snapshot.host, pid): own for own, pid in snapshot.ras.pids.items()})
        for identity in _identities(chosen, snapshots):
            if identity.host is not None and identity.pid is not None:
                own = inner.get((identity.host, identity.pid), identity.pid)
                for name in (identity.host, *addresses[identity.host]):
                    self._ranks.setdefault((name, own), identity.rank)
                if not addresses[identity.host]:
                    self._nameless[identity.host].setdefault(own, identity.rank)

    def ranks_of(self, network: RasNetwork, world_size: int | None) -> dict[int, int]:
        """Return the global ranks of a report's processes, by their index in it, as far as they can be told."""
        found = {
            at: self._ranks[peer.host, peer.pid]
            for at, peer in enumerate(network.peers)
            if (peer.host, peer.pid) in self._ranks
        }
        found |= self._by_pids({at for at in range(len(network.peers)) if at not in found}, network)
        if self._ranks and not found and (network.whole or network.asked_at_ns is None):
            return {}  # of another job; a text that an agent was told may list nobody whom we know
        world = world_of(network, world_size)
        return found if world is None else _by_number(found, world)

    def _by_pids(self, unknown: set[int], network: RasNetwork) -> dict[int, int]:
        by_address: dict[str, dict[int, int]] = defaultdict(dict)
        for at in unknown:
            by_address[network.peers[at].host][network.peers[at].pid] = at
        found: dict[int, int] = {}
        for pids in by_address.values():
            shared = {host: len(pids.keys() & known.keys()) for host, known in self._nameless.items()}
            best = [host for host, count in shared.items() if count and is_majority(count, len(pids))]
            if len(best) == 1:
                known = self._nameless[best[0]]
                found |= {at: known[pid] for pid, at in pids.items() if pid in known}
        return found


def world_of(network: RasNetwork, world_size: int | None) -> Communicator | None:
    """Return the communicator of the whole job: the largest, where it is as large as the job is."""
    largest = max(network.communicators, key=lambda one: (one.size or 0, len(one.ranks), one.key), default=None)
    if largest is None or largest.size is None or (world_size is not None and largest.size != world_size):
        return None
    if world_size is not None:
        return largest
    processes = {network.peers[at][:2] for at in largest.peers if 0 <= at < len(network.peers)}
    return largest if len(processes) == len(largest.ranks) else None


def _by_number(found: dict[int, int], world: Communicator) -> dict[int, int]:
    numbered = dict(zip(world.peers, world.ranks, strict=False))
    if any(numbered[at] != rank for at, rank in found.items() if at in numbered):
        return found
    taken = set(found.values())
    return found | {at: rank for at, rank in numbered.items() if at not in found and rank not in taken}


def _identities(
    chosen: Mapping[int, tuple[RankSnapshot, ...]], snapshots: Sequence[NodeSnapshot]
) -> Iterable[Identity]:
    """Those seen, then those known to have ended, of the same job."""
    jobs = {looks[-1].identity.job for looks in chosen.values()}
    yield from (looks[-1].identity for looks in chosen.values())
    for snapshot in snapshots:
        for exited in snapshot.exited:
            if exited.identity is not None and exited.identity.job in jobs:
                yield exited.identity
