"""What a sweep comes to, and what files come to as well, which ask nobody."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from collector.align.expected import Expected
from shared.answer.diagnosis import Diagnosis
from shared.wire.snapshot import NodeSnapshot, RankList


@dataclass(frozen=True)
class Sweep:
    """A verdict and everything that it rests on."""

    snapshots: tuple[NodeSnapshot, ...]
    expected: Expected
    diagnosis: Diagnosis
    packed: tuple[bytes, ...] = ()
    """The snapshots as agents sent them, compressed; empty where they were read from files."""
    lists: Mapping[str, RankList] = field(default_factory=dict)
    """The agents' lists of ranks by URL: what to pass as `earlier` to the next sweep."""
