"""Compares the steps of a job in spells with looks and in spells without, pair by pair."""

import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

_DRAWS = 2000
_BINS = 100


class Step(NamedTuple):
    """One step of a rank: when it ended, by the monotonic clock, and how long it took. Nanoseconds."""

    ended: int
    took: int

    def meets(self, looks: Sequence[tuple[int, int]]) -> bool:
        """Did any of these looks, of which each is its begin and its end, go on while the step did?"""
        return any(begun <= self.ended and self.ended - self.took <= ended for begun, ended in looks)


class Spell(NamedTuple):
    """Some seconds in which the job was looked at, or was not."""

    looked: bool
    begun_ns: int
    ended_ns: int
    looks: tuple[tuple[int, int], ...]
    grown_bytes: int
    """Memory of the job, from the begin of the spell to its end: recorders fill up without any look too."""

    def of(self, steps: Sequence[Step]) -> list[Step]:
        """Return the steps that lie within the spell."""
        return [step for step in steps if self.begun_ns <= step.ended - step.took and step.ended <= self.ended_ns]


class Pair(NamedTuple):
    """Milliseconds of the steps of two spells that followed each other."""

    looked: list[float]
    """All steps of the spell with looks."""
    during: list[float]
    """Those of them that met a look."""
    between: list[float]
    """Those of them that met none."""
    quiet: list[float]
    """The steps of the spell without."""


def read_steps(path: Path) -> list[Step]:
    """Read what a rank of stepping.py wrote."""
    lines = (line.split() for line in path.read_text().splitlines())
    return [Step(int(line[0]), int(line[1])) for line in lines if len(line) == 2]


def pairs_of(spells: Sequence[Spell], steps: Sequence[Step]) -> list[Pair]:
    """Put every two spells together: one of them was looked at."""
    return [_pair(*spells[at : at + 2], steps=steps) for at in range(0, len(spells) - 1, 2)]


def _pair(one: Spell, other: Spell, *, steps: Sequence[Step]) -> Pair:
    looked, quiet = (one, other) if one.looked else (other, one)
    met: dict[bool, list[float]] = {True: [], False: []}
    for step in looked.of(steps):
        met[step.meets(looked.looks)].append(step.took / 1e6)
    return Pair(met[True] + met[False], met[True], met[False], [step.took / 1e6 for step in quiet.of(steps)])


def compare(pairs: Sequence[Pair]) -> dict[str, str]:
    """Return the rows: how the steps were spread, and what changed from a spell without looks to its neighbour with."""
    looked, during, quiet = (
        sorted(chain(*(getattr(p, what) for p in pairs))) for what in ("looked", "during", "quiet")
    )
    rows = {}
    for what, share in (("median", 50), ("95th percentile", 95), ("99th percentile", 99)):
        figures = f"{_percentile(quiet, share):.2f} ms, {_percentile(looked, share):.2f} ms"
        rows[f"step, {what}: without looks, with looks"] = figures
    rows["change of a period's median step, per pair"] = _change(pairs, median)
    rows["change of a period's mean step, per pair"] = _change(pairs, lambda steps: sum(steps) / len(steps))
    rows["steps that overlap a look: share, median, 99th percentile"] = (
        f"{len(during) / len(looked):.0%}, {_percentile(during, 50):.2f} ms, {_percentile(during, 99):.2f} ms"
    )
    limit = _percentile(quiet, 99)
    slow = [sum(each > limit for each in steps) / len(steps) if steps else 0.0 for steps in (during, looked)]
    rows["longer than the 99th percentile without looks: of steps that overlap a look, of all steps with looks"] = (
        f"{slow[0]:.1%}, {slow[1]:.1%}"
    )
    rows["distance from the steps without looks: all steps with looks"] = _distance(
        [(p.looked, p.quiet) for p in pairs]
    )
    rows["the same: steps between looks"] = _distance([(p.between, p.quiet) for p in pairs])
    return rows


def _change(pairs: Sequence[Pair], figure: Callable[[list[float]], float]) -> str:
    """Return the mean change of a figure with its 95 % interval, drawn by bootstrap over the pairs."""
    changes = [100 * (figure(pair.looked) / figure(pair.quiet) - 1) for pair in pairs]
    draws = random.Random(7)
    means = sorted(sum(draws.choices(changes, k=len(changes))) / len(changes) for _ in range(_DRAWS))
    low, high = means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS)]
    return f"{sum(changes) / len(changes):+.2f} % (95 %: {low:+.2f} to {high:+.2f} %)"


def _distance(sides: Sequence[tuple[list[float], list[float]]]) -> str:
    """Return the Kolmogorov-Smirnov distance of two sides, and how often chance alone makes one as large.

    Chance: the sides of each pair are swapped or not, by a coin. Steps that follow each other are alike, so that no
    formula for independent samples would do. Taken at the percentiles of all steps. Not known where a side has no
    steps, as where looks follow each other so closely that each step meets one.
    """
    if not all(any(side) for side in zip(*sides, strict=True)):
        return "not known: there are no such steps"
    edges = sorted(set(quantiles(chain(*chain(*sides)), n=_BINS)))
    counted = [(_binned(one, edges), _binned(other, edges)) for one, other in sides]
    draws = random.Random(7)
    found = _gap(counted)
    swapped = ([pair if draws.random() < 0.5 else pair[::-1] for pair in counted] for _ in range(_DRAWS // 2))
    chance = sum(_gap(each) >= found for each in swapped) / (_DRAWS // 2)
    return f"{found:.3f} (p = {chance:.3f})"


def _binned(steps: Sequence[float], edges: Sequence[float]) -> list[int]:
    counts = [0] * (len(edges) + 1)
    for step in steps:
        counts[bisect_left(edges, step)] += 1
    return counts


def _gap(counted: Sequence[tuple[list[int], list[int]]]) -> float:
    """Return the largest difference of the two shares of steps up to an edge."""
    one, other = (list(accumulate(map(sum, zip(*side, strict=True)))) for side in zip(*counted, strict=True))
    return max(abs(a / one[-1] - b / other[-1]) for a, b in zip(one, other, strict=True))


def _percentile(values: Sequence[float], share: int) -> float:
    return quantiles(values, n=100)[share - 1] if len(values) > 1 else sum(values)
