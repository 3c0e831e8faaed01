"""RAS reports that lie in files: beside snapshots and dumps, or alone."""

from collections.abc import Sequence

from collector.align.processes import MOST_RANKS
from collector.align.ras.process_ranks import world_of
from collector.files.merge import empty_rank
from shared.isolation import costs_itself
from shared.wire.ras import RasLook, RasNetwork
from shared.wire.snapshot import NodeSnapshot, RankSnapshot


@costs_itself(lambda snapshots, reports: snapshots, part="RAS reports")
def with_ras(snapshots: tuple[NodeSnapshot, ...], reports: Sequence[RasNetwork]) -> tuple[NodeSnapshot, ...]:
    """Return the snapshots with a further one that holds the reports; it names the ranks where nothing else does.

    The newest report that knows most of them does: of processes that are dead RAS soon tells no ranks.
    """
    if not reports:
        return snapshots
    told = sorted(reports, key=lambda report: (report.told_at, repr(report)))
    ranks = () if any(snapshot.ranks for snapshot in snapshots) else max(map(_ranks_of, reversed(told)), key=len)
    return (*snapshots, NodeSnapshot(host=None, live=False, ranks=ranks, ras=RasLook(networks=tuple(told))))


def _ranks_of(report: RasNetwork) -> tuple[RankSnapshot, ...]:
    """The ranks of the largest communicator, numbered as there: in PyTorch that is the whole job."""
    world = world_of(report, None)
    if world is None or world.size is None:
        return ()
    homes = dict(zip(world.ranks, world.peers, strict=False))
    every = range(world.size) if world.size <= MOST_RANKS else sorted(homes)
    return tuple(_rank(rank, world.size, homes.get(rank), report) for rank in every)


def _rank(rank: int, world_size: int, at: int | None, report: RasNetwork) -> RankSnapshot:
    known: dict[str, object] = {"world_size": world_size}
    if at is not None:
        peer = report.peers[at]
        known |= {"host": peer.host, "pid": peer.pid if peer.pid >= 0 else None, "gpu": peer.gpu or None}
    empty = empty_rank(rank)
    return empty.model_copy(update={"identity": empty.identity.model_copy(update=known)})
