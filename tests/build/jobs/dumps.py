"""Snapshots made of bare recorder dumps, as `--from` makes them."""

from collections.abc import Iterable
from pathlib import Path

from shared.formats.recorder.dump import parse_dump, rank_of_file_name
from shared.missing import Missing, Reason
from shared.wire.snapshot import Identity, NodeSnapshot, RankSnapshot
from shared.wire.trace import Trace

DATA = Path(__file__).parents[2] / "data"
CASES = DATA / "cases"
GLOO = DATA / "gloo"


def bare_rank(rank: int, recorder: Trace | Missing) -> RankSnapshot:
    """A rank of which nothing but a dump is known."""
    nothing = Missing(source="files", reason=Reason.NOT_FOUND)
    return RankSnapshot(
        identity=Identity(rank=rank), process=nothing, stacks=nothing, fds=nothing, logs=nothing, recorder=recorder
    )


def snapshots_of(files: Iterable[Path]) -> list[NodeSnapshot]:
    """One snapshot per file, in the order given."""
    snapshots = []
    for file in files:
        rank = rank_of_file_name(file.name)
        assert rank is not None, file
        snapshots.append(NodeSnapshot(live=False, ranks=(bare_rank(rank, parse_dump(file.read_bytes())),)))
    return snapshots
