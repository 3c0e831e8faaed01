"""RAS reports that lie in files: beside snapshots and dumps, or alone."""

import hashlib
from collections.abc import Iterator, Sequence

from collector.align.processes import MOST_RANKS
from collector.align.ras.process_ranks import world_of
from collector.files.merge import DatedSets, empty_rank
from collector.files.tree.walk import FoundFile
from shared.formats.ras.parse import parse_ras
from shared.isolation import costs_itself
from shared.wire.ras import RasLook, RasNetwork
from shared.wire.snapshot import NodeSnapshot, RankSnapshot


class RasReports:
    """Reports by the names of their files."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[bytes, RasNetwork]] = {}

    def add(self, found: FoundFile) -> None:
        """Read one. Raises UnhangError."""
        self._read[found.name] = hashlib.sha256(found.data).digest(), parse_ras(found.data)

    def looks(self, sets: DatedSets) -> Iterator[RasNetwork]:
        """Reports that tell no time and are equal are one look, as dumps are, but for dates beside them."""
        named = {(key, sets.date_of(name)): name for name, (key, _) in sorted(self._read.items(), reverse=True)}
        for name in named.values():
            report, taken = self._read[name][1], sets.taken_ns(name)
            if not report.told_at and taken is not None:
                report = report.model_copy(update={"told_at": f"written at {taken / 1e9:.0f}"})
            yield report


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
