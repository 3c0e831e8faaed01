"""What a simulated rank does: a program is a sequence of steps, most of them operations on a process group."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Team:
    """One process group. Names may repeat with different members; `ranks` are global, by group rank."""

    name: str
    description: str
    ranks: tuple[int, ...]
    role: str
    """What its siblings share: `tp`, `dp`. Known to the simulator whatever the description says."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.description, self.ranks, self.role))

    @cached_property
    def everybody(self) -> frozenset[int]:
        return frozenset(self.ranks)

    def group_rank(self, rank: int) -> int:
        return self.ranks.index(rank)

    @property
    def size(self) -> int:
        return len(self.ranks)


@dataclass(frozen=True)
class Operation:
    """One call of `op`. Sizes per tensor, as this rank passes them."""

    op: str
    team: Team
    inputs: tuple[Shape, ...] = ()
    outputs: tuple[Shape, ...] = ()
    dtype: str = "Float"
    root: int | None = None
    """Global rank, for rooted operations. No recorder writes it down."""
    peer: int | None = None
    """Global rank, for send and recv."""
    splits: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """Elements sent to and expected from each member, for an all_to_all on single tensors. Not recorded either."""
    line: int = 40

    @property
    def is_p2p(self) -> bool:
        return self.op in ("send", "recv")


@dataclass(frozen=True)
class Batch:
    """Operations issued as one: `batch_isend_irecv`, or a coalescing manager on the slow path."""

    parts: tuple[Operation, ...]

    @property
    def team(self) -> Team:
        return self.parts[0].team

    @property
    def is_p2p(self) -> bool:
        return self.parts[0].is_p2p


@dataclass(frozen=True)
class Work:
    """The host does something else."""

    seconds: float


@dataclass(frozen=True)
class Kernel:
    """The device does something else, in the queue of the operations; nothing records it."""

    seconds: float


@dataclass(frozen=True)
class Synchronise:
    """The host waits for all that it has issued."""


@dataclass(frozen=True)
class Stay:
    """The host goes no further, and waits for no other rank."""

    where: str = "user"


@dataclass(frozen=True)
class Crash:
    """The process ends here; it leaves no dump."""


Call = Operation | Batch
Step = Call | Work | Kernel | Synchronise | Stay | Crash
Program = Sequence[Step]


def all_reduce(team: Team, elements: int, line: int = 40) -> Operation:
    return Operation("all_reduce", team, ((elements,),), ((elements,),), line=line)


def all_gather(team: Team, elements: int, line: int = 41) -> Operation:
    return Operation("all_gather_into_tensor", team, ((elements,),), ((elements * team.size,),), line=line)


def reduce_scatter(team: Team, elements: int, line: int = 42) -> Operation:
    return Operation("reduce_scatter_tensor", team, ((elements * team.size,),), ((elements,),), line=line)


def broadcast(team: Team, elements: int, root: int, line: int = 43) -> Operation:
    return Operation("broadcast", team, ((elements,),), ((elements,),), root=root, line=line)


def gather(team: Team, elements: int, root: int, rank: int, *, gloo: bool = False, line: int = 44) -> Operation:
    """Whoever thinks that it is the root passes room for everybody's tensor."""
    return Operation(
        "gather", team, ((elements,),), _lists(team, elements, whole=rank == root, gloo=gloo), root=root, line=line
    )


def scatter(team: Team, elements: int, root: int, rank: int, *, gloo: bool = False, line: int = 45) -> Operation:
    """Whoever thinks that it is the root passes everybody's tensor."""
    return Operation(
        "scatter", team, _lists(team, elements, whole=rank == root, gloo=gloo), ((elements,),), root=root, line=line
    )


def _lists(team: Team, elements: int, *, whole: bool, gloo: bool) -> tuple[Shape, ...]:
    """Tensors that only the root has, as recorded: one for each member on NCCL, stacked on Gloo (torch 2.13).

    Whoever is not the root passes one undefined tensor on NCCL (size [0]), none on Gloo.
    """
    if gloo:
        return ((team.size, elements),) if whole else ()
    return ((elements,),) * team.size if whole else ((0,),)


def barrier(team: Team, *, gloo: bool = False, line: int = 46) -> Operation:
    """NCCL reduces one element; Gloo records no tensor."""
    return Operation("barrier", team, () if gloo else ((1,),), () if gloo else ((1,),), line=line)


def all_to_all_single(team: Team, sends: Sequence[int], expects: Sequence[int], line: int = 47) -> Operation:
    splits = (tuple(sends), tuple(expects))
    return Operation("all_to_all", team, ((sum(sends), 8),), ((sum(expects), 8),), splits=splits, line=line)


def all_to_all(team: Team, sends: Sequence[int], expects: Sequence[int], line: int = 48) -> Operation:
    inputs, outputs = (tuple((elements, 8) for elements in each) for each in (sends, expects))
    return Operation("all_to_all", team, inputs, outputs, splits=(tuple(sends), tuple(expects)), line=line)


def send(team: Team, to: int, elements: int, line: int = 49) -> Operation:
    return Operation("send", team, ((elements,),), ((elements,),), peer=to, line=line)


def recv(team: Team, source: int, elements: int, line: int = 50) -> Operation:
    return Operation("recv", team, ((elements,),), ((elements,),), peer=source, line=line)


def numel(shapes: Sequence[Shape]) -> tuple[int, ...]:
    return tuple(map(prod, shapes))


def resized(call: Operation, more: int) -> Operation:
    """The same operation with `more` elements in every tensor that has any."""

    def larger(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return tuple(shape if shape == (0,) else (*shape[:-1], shape[-1] + more) for shape in shapes)

    return replace(call, inputs=larger(call.inputs), outputs=larger(call.outputs))
