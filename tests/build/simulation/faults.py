"""What goes wrong, put into the programs of a healthy layout.

Each fault is a function that changes one rank's program, or what the engine may complete, and says who has done it.
It returns None where the layout has no place for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeGuard

from tests.build.simulation.layouts import Layout
from tests.build.simulation.program import (
    Batch,
    Call,
    Crash,
    Kernel,
    Operation,
    Stay,
    Step,
    Team,
    Work,
    all_reduce,
    recv,
    send,
)
from tests.build.simulation.run import Semantics
from tests.build.simulation.wrong_calls import (
    other_dtype,
    other_op,
    other_root,
    other_size,
    other_splits,
)


@dataclass(frozen=True)
class Injected:
    """A fault as it was put in."""

    fault: str
    culprits: frozenset[int]
    team: Team | None = None
    """The group whose operation went wrong."""
    call: Call | None = None
    broken: frozenset[tuple[Team, int]] = frozenset()
    dead_kernels: frozenset[tuple[int, int]] = frozenset()
    slower: float = 0.0
    detail: str = ""
    places: dict[int, int] = field(default_factory=dict)
    """The step at which each culprit's program was changed."""


_Programs = dict[int, list[Step]]
_Inject = Callable[[Layout, _Programs, Random, Semantics], Injected | None]
_PutAt = Callable[[_Programs, int, int, Any, Random], Injected | None]
"""Changes the program of a rank at a step: (programs, rank, at, step, random)."""


def inject(fault: str, layout: Layout, programs: _Programs, random: Random, semantics: Semantics) -> Injected | None:
    """Change `programs` by `fault`; None: this job has no place for it."""
    return FAULTS[fault](layout, programs, random, semantics)


def _places(programs: _Programs, wanted: Callable[[int, Step], bool]) -> list[tuple[int, int]]:
    """(rank, step) of all wanted steps in the middle of the programs."""
    return [
        (rank, at)
        for rank, steps in programs.items()
        for at in range(int(len(steps) * 0.25), int(len(steps) * 0.85))
        if wanted(rank, steps[at])
    ]


def _collective(step: Step) -> TypeGuard[Operation]:
    return isinstance(step, Operation) and not step.is_p2p


def _issues(step: Step) -> bool:
    return isinstance(step, Operation | Batch)


def _chosen(programs: _Programs, random: Random, wanted: Callable[[int, Step], bool]) -> tuple[int, int, Step] | None:
    """A place drawn evenly over ranks first, so that rare operations are not drowned by frequent ones."""
    places = _places(programs, wanted)
    if not places:
        return None
    kinds = sorted({_sort(programs[rank][at]) for rank, at in places})
    kind = random.choice(kinds)
    rank, at = random.choice([(r, i) for r, i in places if _sort(programs[r][i]) == kind])
    return rank, at, programs[rank][at]


def _sort(step: Step) -> str:
    if isinstance(step, Batch):
        return f"batch {step.team.role} {step.is_p2p}"
    return f"{step.op} {step.team.role}" if isinstance(step, Operation) else type(step).__name__


def _at_one(wanted: Callable[[int, Step], bool]) -> Callable[[_PutAt], _Inject]:
    """Make a fault of one step that is drawn among all wanted ones; jobs that have none have no place for it."""

    def made(put: _PutAt) -> _Inject:
        def inject(layout: Layout, programs: _Programs, random: Random, semantics: Semantics) -> Injected | None:
            found = _chosen(programs, random, wanted)
            return None if found is None else put(programs, *found, random)

        return inject

    return made


def _ended_by(what: Stay | Crash, name: str) -> _Inject:
    @_at_one(lambda rank, step: _issues(step))
    def put(programs: _Programs, rank: int, at: int, step: Operation | Batch, random: Random) -> Injected:
        where = replace(what, where=random.choice(["user", "dataloader"])) if isinstance(what, Stay) else what
        programs[rank][at:] = [where]
        return Injected(name, frozenset({rank}), step.team, step, detail=_sort(step), places={rank: at})

    return put


def _changed(
    name: str, wanted: Callable[[int, Step], bool], change: Callable[[Operation, Random, int], Operation | None]
) -> _Inject:
    """A fault that passes something else to one operation."""

    @_at_one(wanted)
    def put(programs: _Programs, rank: int, at: int, step: Operation, random: Random) -> Injected | None:
        wrong = change(step, random, rank)
        if wrong is None:
            return None
        programs[rank][at] = wrong
        return Injected(
            name, frozenset({rank}), step.team, wrong, detail=f"{_sort(step)} -> {wrong.op}", places={rank: at}
        )

    return put


def _only_on_nccl(put: _Inject) -> _Inject:
    """Gloo has no kernels, and takes roots at their word one by one: who goes on then depends on its algorithm."""
    return lambda layout, programs, random, semantics: (
        None if semantics is Semantics.GLOO else put(layout, programs, random, semantics)
    )


@_at_one(lambda rank, step: _collective(step))
def _skips(programs: _Programs, rank: int, at: int, step: Operation, random: Random) -> Injected:
    del programs[rank][at]
    return Injected("skips", frozenset({rank}), step.team, step, detail=_sort(step), places={rank: at})


@_at_one(lambda rank, step: _collective(step) and step.team.role != "world")
def _shuns(programs: _Programs, rank: int, at: int, step: Operation, random: Random) -> Injected:
    """The rank calls nothing more of one group, and goes on with the others."""
    programs[rank][at:] = [s for s in programs[rank][at:] if not (_collective(s) and s.team == step.team)]
    return Injected("shuns group", frozenset({rank}), step.team, step, detail=_sort(step), places={rank: at})


@_at_one(lambda rank, step: _collective(step))
def _extra(programs: _Programs, rank: int, at: int, step: Operation, random: Random) -> Injected:
    again = step if random.random() < 0.5 else all_reduce(step.team, 7, line=85)
    programs[rank].insert(at, again)
    detail = f"{_sort(step)}{' again' if again is step else ' other'}"
    return Injected("extra", frozenset({rank}), step.team, again, detail=detail, places={rank: at})


def _inverts(layout: Layout, programs: _Programs, random: Random, semantics: Semantics) -> Injected | None:
    """The rank takes two groups' operations in the other order."""
    swaps = [
        (rank, one, two)
        for rank, at in _places(programs, lambda rank, step: _collective(step))
        for one, two in [(at, _next_call(programs[rank], at))]
        if two is not None and _collective(programs[rank][two]) and programs[rank][one].team != programs[rank][two].team  # type: ignore[union-attr]
    ]
    if not swaps:
        return None
    rank, one, two = random.choice(swaps)
    steps = programs[rank]
    steps[one], steps[two] = steps[two], steps[one]
    teams = f"{_sort(steps[two])} after {_sort(steps[one])}"
    return Injected("inverts", frozenset({rank}), steps[one].team, steps[one], detail=teams, places={rank: one})  # type: ignore[union-attr, arg-type]


def _next_call(steps: list[Step], at: int) -> int | None:
    for i in range(at + 1, len(steps)):
        if not isinstance(steps[i], Kernel | Work):
            return i if _issues(steps[i]) else None
    return None


@_at_one(lambda rank, step: bool(_sends(step)))
def _never_sends(programs: _Programs, rank: int, at: int, step: Operation | Batch, random: Random) -> Injected:
    lost = random.choice(_sends(step))
    left = tuple(p for p in step.parts if p is not lost) if isinstance(step, Batch) else ()
    programs[rank][at : at + 1] = [Batch(left)] if left else []
    return Injected("never sends", frozenset({rank}), lost.team, lost, detail=_sort(step), places={rank: at})


def _sends(step: Step) -> list[Operation]:
    parts = step.parts if isinstance(step, Batch) else (step,)
    return [part for part in parts if isinstance(part, Operation) and part.op == "send"]


def _receives_in_a_ring(layout: Layout, programs: _Programs, random: Random, semantics: Semantics) -> Injected | None:
    """Every member of a group receives from the one before and would send afterwards."""
    team = random.choice([team for team in layout.teams if team.role in ("pp", "world", "tp")])
    step = random.randint(1, 3)
    for rank in team.ranks:
        loads = [at for at, each in enumerate(programs[rank]) if isinstance(each, Work)]
        me = team.group_rank(rank)
        before, after = team.ranks[me - 1], team.ranks[(me + 1) % team.size]
        programs[rank][loads[step] + 1 : loads[step] + 1] = [recv(team, before, 32, 86), send(team, after, 32, 87)]
    return Injected("receives in a ring", frozenset(team.ranks), team, recv(team, team.ranks[0], 32), detail=team.role)


@_at_one(lambda rank, step: _collective(step))
def _dead_kernel(programs: _Programs, rank: int, at: int, step: Operation, random: Random) -> Injected:
    index = sum(_issues(each) for each in programs[rank][:at])
    return Injected(
        "dead kernel", frozenset({rank}), step.team, step, dead_kernels=frozenset({(rank, index)}), detail=_sort(step)
    )


@_at_one(lambda rank, step: _collective(step))
def _link(programs: _Programs, rank: int, at: int, step: Operation, random: Random) -> Injected:
    index = 1 + sum(_on(each, step.team) for each in programs[rank][:at])
    return Injected("link", frozenset(), step.team, step, broken=frozenset({(step.team, index)}), detail=_sort(step))


def _on(step: Step, team: Team) -> int:
    """How many collectives of `team` a step issues."""
    if isinstance(step, Batch):
        return 0 if step.is_p2p or step.team != team else len(step.parts)
    return int(_collective(step) and step.team == team)


def _two_stay(layout: Layout, programs: _Programs, random: Random, semantics: Semantics) -> Injected | None:
    """Two ranks stay away from the same operation of sibling groups that have no member in common."""
    families = sorted({team.role for team in layout.teams if team.role not in ("world", "pp")})
    family = random.choice(families) if families else None
    siblings = [team for team in layout.teams if team.role == family]
    if len(siblings) < 2:
        return None
    one, two = random.sample(siblings, 2)
    if set(one.ranks) & set(two.ranks):
        return None
    a, b = random.choice(one.ranks), random.choice(two.ranks)
    spots = [at for rank, at in _places({a: programs[a]}, lambda r, s: _collective(s) and s.team == one)]
    if not spots:
        return None
    nth = sum(_collective(s) and s.team == one for s in programs[a][: spots[0]])
    theirs = [at for at, s in enumerate(programs[b]) if _collective(s) and s.team == two]
    if nth >= len(theirs):
        return None
    programs[a][spots[0] :] = [Stay()]
    programs[b][theirs[nth] :] = [Stay("dataloader")]
    return Injected("two stay", frozenset({a, b}), one, None, detail=one.role, places={a: spots[0], b: theirs[nth]})


def _sized(step: Step) -> bool:
    return _collective(step) and step.op not in ("barrier", "all_to_all")


def _of_type(*ops: str) -> Callable[[int, Step], bool]:
    return lambda rank, step: isinstance(step, Operation) and step.op in ops


FAULTS: dict[str, _Inject] = {
    "stays": _ended_by(Stay(), "stays"),
    "crashes": _ended_by(Crash(), "crashes"),
    "wrong op": _changed("wrong op", lambda rank, step: _collective(step), other_op),
    "wrong size": _changed("wrong size", lambda rank, step: _sized(step), other_size),
    "wrong dtype": _changed("wrong dtype", lambda rank, step: _sized(step), other_dtype),
    "wrong root": _only_on_nccl(_changed("wrong root", _of_type("gather", "scatter", "broadcast"), other_root)),
    "wrong splits": _changed("wrong splits", _of_type("all_to_all"), other_splits),
    "skips": _skips,
    "shuns group": _shuns,
    "extra": _extra,
    "inverts": _inverts,
    "never sends": _never_sends,
    "receives in a ring": _receives_in_a_ring,
    "dead kernel": _only_on_nccl(_dead_kernel),
    "link": _link,
    "two stay": _two_stay,
}
