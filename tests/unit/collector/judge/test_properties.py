"""Whatever the topology and the fault: no innocent is named, and the order of the dumps changes nothing."""

import random
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Kind, Verdict
from tests.build.jobs.simulated import WORLD, Collective, Job, Stay, Step

PLACES = 5
"""Iterations of the healthy program."""


@dataclass(frozen=True)
class Layout:
    """Ranks in tensor-parallel and data-parallel groups over one world."""

    tensor: int
    data: int

    @property
    def world(self) -> int:
        return self.tensor * self.data

    @property
    def groups(self) -> dict[str, tuple[int, ...]]:
        tp = {f"tp{d}": tuple(range(d * self.tensor, (d + 1) * self.tensor)) for d in range(self.data)}
        dp = {f"dp{t}": tuple(range(t, self.world, self.tensor)) for t in range(self.tensor)}
        return {name: ranks for name, ranks in (tp | dp).items() if len(ranks) > 1}

    def steps(self, rank: int) -> list[Step]:
        mine = [name for name, ranks in self.groups.items() if rank in ranks]
        return [Collective(name) for name in mine] + [Collective(WORLD, size=64)]


@dataclass(frozen=True)
class Fault:
    """What the faulty rank does at one step of its program."""

    what: str
    rank: int
    at: int

    def put_into(self, steps: list[Step]) -> None:
        step = steps[self.at]
        assert isinstance(step, Collective)
        if self.what == "stay":
            steps[self.at :] = [Stay()]
        elif self.what == "op":
            steps[self.at] = Collective(step.group, op="all_gather", size=step.size)
        elif self.what == "size":
            steps[self.at] = Collective(step.group, size=step.size + 1)
        elif self.what == "extra":
            steps.insert(self.at, Collective(step.group, size=7))


@st.composite
def faulty_jobs(draw: st.DrawFn) -> tuple[Job, Fault, Layout]:
    layout = Layout(draw(st.integers(1, 4)), draw(st.integers(2, 4)))
    if layout.world < 3:
        layout = Layout(layout.tensor, 4)
    programs = {rank: layout.steps(rank) * PLACES for rank in range(layout.world)}
    rank = draw(st.integers(0, layout.world - 1))
    fault = Fault(
        draw(st.sampled_from(["stay", "op", "size", "extra"])), rank, draw(st.integers(0, len(programs[rank]) - 1))
    )
    fault.put_into(programs[rank])
    return Job(programs, layout.groups), fault, layout


@settings(max_examples=150, deadline=None)
@given(faulty_jobs(), st.booleans(), st.sampled_from([None, 6]), st.randoms(use_true_random=False))
def test_no_innocent_is_ever_named(
    made: tuple[Job, Fault, Layout], members: bool, window: int | None, shuffle: random.Random
) -> None:
    job, fault, layout = made
    dumps = job.dumps(members=members, window=window)
    answer = diagnose(dumps, Expected(world_size=layout.world))
    shuffle.shuffle(dumps)
    assert diagnose(dumps, Expected(world_size=layout.world)) == answer
    assert answer.verdict is Verdict.HUNG
    named = {rank for finding in answer.findings for rank in finding.culprit_ranks}
    assert named <= {fault.rank}, answer.headline
    if fault.what == "stay" and members:  # else nothing says that a rank belongs to a group that it has not used yet
        assert named == {fault.rank}, answer.headline
        assert answer.findings[0].kind is Kind.RANK_NOT_JOINED


@settings(max_examples=150, deadline=None)
@given(faulty_jobs(), st.data())
def test_a_healthy_ranks_silence_accuses_nobody_but_itself(
    made: tuple[Job, Fault, Layout], data: st.DataObject
) -> None:
    job, fault, layout = made
    if fault.what != "stay":
        return
    silent = data.draw(st.sampled_from([rank for rank in job.ranks if rank != fault.rank]))
    answer = diagnose(job.dumps(without=[silent]), Expected(world_size=layout.world))
    named = {rank for finding in answer.findings for rank in finding.culprit_ranks}
    assert named <= {fault.rank, silent}


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4), st.integers(2, 4))
def test_a_job_that_ran_to_its_end_is_not_hung(tensor: int, data: int) -> None:
    layout = Layout(tensor, data)
    job = Job({rank: layout.steps(rank) * PLACES for rank in range(layout.world)}, layout.groups)
    assert diagnose(job.dumps(), Expected()).verdict is Verdict.CANNOT_TELL
