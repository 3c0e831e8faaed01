"""The comparison of steps finds what looks do to a job, and nothing where they do nothing."""

import random
from pathlib import Path

from tests.bench.steps import Spell, Step, compare, pairs_of, read_steps

_STEP_NS = 20_000_000
_SPELL_STEPS = 100
_ALL = "distance from the steps without looks: all steps with looks"
_APART = "the same: steps between looks"


def a_run(*, pause_ns: int) -> tuple[list[Spell], list[Step]]:
    """Make thirty pairs of spells; of those with looks every tenth step meets one, and is longer by the pause."""
    draws, now = random.Random(1), 0
    spells: list[Spell] = []
    steps: list[Step] = []
    for number in range(60):
        begun, looks = now, []
        for at in range(_SPELL_STEPS):
            meets = number % 2 == 0 and at % 10 == 5
            took = _STEP_NS + draws.randrange(2_000_000) + (pause_ns if meets else 0)
            if meets:
                looks.append((now + 1_000_000, now + 2_000_000))
            now += took
            steps.append(Step(now, took))
        spells.append(Spell(bool(looks), begun, now, tuple(looks), 0))
    return spells, steps


def chance(row: str) -> float:
    """Return the p of a row such as `0.101 (by chance with p = 0.000)`."""
    return float(row.rpartition("= ")[2].rstrip(")"))


def test_steps_that_meet_a_look_are_told_from_the_others() -> None:
    """They are a tenth, they are longer, and the others are as without."""
    rows = compare(pairs_of(*a_run(pause_ns=8_000_000)))
    assert rows["steps that overlap a look: share, median, 99th percentile"].startswith("10%, 29.")
    longer = "longer than the 99th percentile without looks: of steps that overlap a look, of all steps with looks"
    assert rows[longer].startswith("100")
    assert rows["change of a period's mean step, per pair"].startswith("+3.")
    assert chance(rows[_ALL]) < 0.01
    assert chance(rows[_APART]) > 0.05


def test_looks_that_cost_nothing() -> None:
    """Nothing is found that could not be chance."""
    rows = compare(pairs_of(*a_run(pause_ns=0)))
    assert chance(rows[_ALL]) > 0.05
    assert chance(rows[_APART]) > 0.05


def test_no_step_falls_between_looks() -> None:
    """Looks follow each other so closely, or none met a step: the rest is compared all the same."""
    spells, steps = a_run(pause_ns=0)
    always = [each._replace(looks=((each.begun_ns, each.ended_ns),) if each.looked else ()) for each in spells]
    rows = compare(pairs_of(always, steps))
    assert rows[_APART].startswith("not known")
    assert chance(rows[_ALL]) > 0.05
    never = compare(pairs_of([each._replace(looks=()) for each in spells], steps))
    assert never["steps that overlap a look: share, median, 99th percentile"].startswith("0%")


def test_step_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    """The rank is ended while it writes."""
    (tmp_path / "0").write_text("2000 10\n3000 10\n40")
    assert read_steps(tmp_path / "0") == [Step(2000, 10), Step(3000, 10)]
    assert Spell(True, 1995, 3500, (), 0).of(read_steps(tmp_path / "0")) == [Step(3000, 10)]
    assert [Step(2000, 10).meets(((begun, begun + 5),)) for begun in (1980, 1986, 2000, 2001)] == [
        False,
        True,
        True,
        False,
    ]
