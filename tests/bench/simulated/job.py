"""The simulated job: who its ranks are, in which groups, and how far each has come.

A language model as Megatron lays it out: a node is a tensor-parallel group of eight ranks, a quarter of the nodes is a
stage of the pipeline. Either all of it moves, or one rank has stopped asking for a batch of its DataLoader: its node
waits for it in the tensor group, the other nodes of its stage wait for these in the data groups, and the other stages
for those in the world's.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache

from shared.rank_sets import fold
from shared.wire.trace import Group

PER_NODE = 8
STAGES = 4
NAME = "slurm-48151"
TIMEOUT_MS = 600_000
SECONDS_BEFORE = 100.0
"""How long the hung job has stood still when the simulation begins. Kept to three digits for a quarter of an hour."""


class Role(StrEnum):
    """Where a rank has come to."""

    CULPRIT = "culprit"
    """It waits for its DataLoader."""
    PEER = "peer"
    """It waits for the culprit, in their tensor group."""
    MATE = "mate"
    """It waits for the culprit's node, in its data group; of the same stage."""
    OTHER = "other"
    """It waits for the culprit's stage, in the world."""
    MOVING = "moving"


@dataclass(frozen=True)
class SimulatedJob:
    """A job on so many nodes; `moving` or hung."""

    nodes: int
    moving: bool = False

    def __post_init__(self) -> None:
        if self.nodes < STAGES or self.nodes % STAGES != 0:
            raise ValueError(f"{self.nodes} nodes cannot be parted into {STAGES} stages")

    @property
    def world(self) -> int:
        return self.nodes * PER_NODE

    @property
    def culprit(self) -> int:
        """The rank that holds all others up: three eighths through, in the second stage."""
        return self.nodes * 3 // 8 * PER_NODE + 5

    def stage(self, rank: int) -> int:
        return rank * STAGES // self.world

    def role(self, rank: int) -> Role:
        if self.moving:
            return Role.MOVING
        if rank == self.culprit:
            return Role.CULPRIT
        if rank // PER_NODE == self.culprit // PER_NODE:
            return Role.PEER
        return Role.MATE if self.stage(rank) == self.stage(self.culprit) else Role.OTHER

    def groups(self, rank: int) -> tuple[Group, ...]:
        """The process groups of a rank, in the order of `Lane`; ranks between the ends have no embedding group."""
        node, depth = rank // PER_NODE, self.world // STAGES
        first = node * PER_NODE
        column = tuple(rank % depth + depth * stage for stage in range(STAGES))
        block = tuple(first % depth + depth * stage + at for stage in range(STAGES) for at in range(PER_NODE))
        made = (
            self._world_group,
            _group(str(1 + node), "TENSOR_MODEL_PARALLEL_GROUP", tuple(range(first, first + PER_NODE))),
            self._data_group(self.stage(rank), rank % PER_NODE),
            _group(str(20_000 + rank % depth), "PIPELINE_MODEL_PARALLEL_GROUP", column),
            _group(str(40_000 + first % depth), "MODEL_PARALLEL_GROUP", block),
        )
        if self.stage(rank) in (0, STAGES - 1):
            return *made, _group(str(60_000 + rank % depth), "EMBEDDING_GROUP", (column[0], column[-1]))
        return made

    @cached_property
    def _world_group(self) -> Group:
        return _group("0", "default_pg", tuple(range(self.world)))

    def _data_group(self, stage: int, tensor: int) -> Group:
        depth = self.world // STAGES
        members = tuple(range(stage * depth + tensor, (stage + 1) * depth, PER_NODE))
        return _group(str(10_000 + stage * PER_NODE + tensor), "DATA_PARALLEL_GROUP_WITH_CP", members)


@lru_cache(maxsize=1024)
def _group(name: str, description: str, members: tuple[int, ...]) -> Group:
    return Group(name=name, description=description, members=fold(members), timeout_ms=TIMEOUT_MS)


def host_of(node: int) -> str:
    """The name of a node."""
    return f"node{node + 1:04}"
