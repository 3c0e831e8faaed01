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


SECOND_NS = 1_000_000_000


def bare_rank(rank: int, recorder: Trace | Missing, written_ns: int | None = None) -> RankSnapshot:
    """A rank of which nothing but a dump is known."""
    nothing = Missing(source="files", reason=Reason.NOT_FOUND)
    return RankSnapshot(
        identity=Identity(rank=rank),
        process=nothing,
        stacks=nothing,
        fds=nothing,
        logs=nothing,
        recorder=recorder,
        recorded_at_ns=written_ns,
    )


def dumped_twice(rank: int, trace: Trace, *, ended_ns: int) -> NodeSnapshot:
    """What two dumps of a rank show that has not moved since `ended_ns`."""
    looks = (bare_rank(rank, trace, ended_ns + seconds * SECOND_NS) for seconds in (20, 40))
    return NodeSnapshot(live=False, ranks=tuple(looks))


def snapshots_of(files: Iterable[Path]) -> list[NodeSnapshot]:
    """One snapshot per file, in the order given. Gloo has no watchdog that writes them: of its dumps, it is of two."""
    traces: list[tuple[int, Trace]] = []
    for file in files:
        rank = rank_of_file_name(file.name)
        assert rank is not None, file
        traces.append((rank, parse_dump(file.read_bytes())))
    if any(one.backend != "gloo" for _, trace in traces for one in trace.signatures):
        return [NodeSnapshot(live=False, ranks=(bare_rank(*each),)) for each in traces]
    ended_ns = max((begun for _, trace in traces for begun in trace.created_ns), default=0)
    return [dumped_twice(rank, trace, ended_ns=ended_ns) for rank, trace in traces]
