"""Random blocking jobs in which one rank strays, and some dumps are lost: the second simulator of faults.

It shares nothing with `tests/build/simulation` but the judge: operations block, so that who waits is known by itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs.simulated import WORLD, Collective, Job, Recv, Send, Stay, Step

_STEPS = 6


@dataclass(frozen=True)
class Strayed:
    """A job whose rank `culprit` does something else once, and what is left of it."""

    seed: int
    fault: str
    culprit: int
    lost: frozenset[int]
    dumps: list[NodeSnapshot]

    def innocents(self, named: frozenset[int]) -> frozenset[int]:
        """Return those named who have done nothing, and of whom there is a dump."""
        return named - {self.culprit} - self.lost


_Stray = Callable[[Step, Random], list[Step]]


def _another(step: Step, random: Random) -> list[Step]:
    if not isinstance(step, Collective):
        return []
    return [replace(step, op="all_gather") if random.random() < 0.5 else replace(step, size=step.size * 2)]


_FAULTS: Mapping[str, _Stray] = {
    "stays": lambda step, random: [Stay()],
    "skips": lambda step, random: [],
    "repeats": lambda step, random: [step, step],
    "does another": _another,
}


def stray(seed: int) -> Strayed:
    """Draw a job, its fault and its losses from one number."""
    random = Random(seed)
    stages, width = random.choice([(2, 2), (2, 3), (3, 2), (4, 2), (2, 4)])
    groups, every = _groups(stages, width), random.randrange(1, 4)
    programs = {rank: _program(rank, stages, width, every) for rank in range(stages * width)}
    culprit, fault = random.randrange(stages * width), random.choice(list(_FAULTS))
    mine = programs[culprit]
    at = random.randrange(len(mine) // 3, len(mine))
    programs[culprit] = [*mine[:at], *_FAULTS[fault](mine[at], random), *mine[at + 1 :]]
    lost = frozenset(random.sample(range(stages * width), random.randrange(4)))
    window = random.choice([None, None, 6, 12])
    dumps = Job(programs, groups).dumps(without=sorted(lost), members=random.random() < 0.4, window=window)
    return Strayed(seed, fault, culprit, lost, dumps)


def _groups(stages: int, width: int) -> dict[str, tuple[int, ...]]:
    """Pipelines across stages, and the ranks of one stage, which reduce together."""
    pipelines = {f"pp{lane}": tuple(stage * width + lane for stage in range(stages)) for lane in range(width)}
    return pipelines | {f"dp{stage}": tuple(range(stage * width, (stage + 1) * width)) for stage in range(stages)}


def _program(rank: int, stages: int, width: int, every: int) -> list[Step]:
    stage, lane = divmod(rank, width)
    steps: list[Step] = []
    for step in range(_STEPS):
        steps += [Recv(rank - width, f"pp{lane}")] if stage > 0 else []
        steps += [Send(rank + width, f"pp{lane}")] if stage < stages - 1 else []
        steps.append(Collective(f"dp{stage}", "reduce_scatter"))
        steps += [Collective(WORLD)] if step % every == 0 else []
    return steps
