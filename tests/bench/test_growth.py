"""Eight times as many ranks are about eight times the work for a verdict, whatever is the matter with the job.

Work is counted in calls, which do not depend on how busy the machine is.
"""

import cProfile
from array import array
from collections.abc import Callable, Sequence
from functools import cache

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.wire.snapshot import Exited, NodeSnapshot, RankSnapshot
from shared.wire.survey_read import SurveyReader
from shared.wire.survey_write import survey_of
from shared.wire.trace import State, Trace
from tests.bench.simulated.job import NAME, SimulatedJob
from tests.bench.simulated.nodes import SimulatedNode, stopped_before

FEW, MANY = 16, 128
"""Nodes of eight ranks each."""

NOW_NS = 1_790_000_000_000_000_000
LATER_NS = 3_000_000_000

Looks = Sequence[NodeSnapshot]


@cache
def hung(nodes: int) -> Looks:
    """Every rank waits for one, as surveys tell it."""
    job, reader = SimulatedJob(nodes), SurveyReader()
    stopped_ns = stopped_before(NOW_NS)
    looks = [survey_of(SimulatedNode(job, number, stopped_ns=stopped_ns).snapshot()) for number in range(nodes)]
    return at(NOW_NS, [reader.snapshot_of(look) for look in looks])


def at(when_ns: int, looks: Looks) -> Looks:
    """The same, looked at then."""
    return [
        each.model_copy(update={"taken_at_ns": when_ns})
        for each in changed(looks, lambda rank: rank.model_copy(update={"looked_at_ns": when_ns}))
    ]


def changed(looks: Looks, change: Callable[[RankSnapshot], RankSnapshot]) -> Looks:
    """The same with other ranks."""
    return [each.model_copy(update={"ranks": tuple(map(change, each.ranks))}) for each in looks]


def recorded(looks: Looks, change: Callable[[Trace], dict[str, object]]) -> Looks:
    """The same with other flight records."""

    def rewritten(rank: RankSnapshot) -> RankSnapshot:
        assert isinstance(rank.recorder, Trace)
        return rank.model_copy(update={"recorder": rank.recorder.model_copy(update=change(rank.recorder))})

    return changed(looks, rewritten)


def trains(looks: Looks) -> Looks:
    """Twenty operations of each group further on three seconds later."""
    on = recorded(
        looks,
        lambda trace: {
            "created_ns": array("q", (at + LATER_NS for at in trace.created_ns)),
            "completed_ns": array("q", (at + LATER_NS for at in trace.created_ns)),
            "collective_seq": array("q", (number + 20 for number in trace.collective_seq)),
        },
    )
    return [*looks, *at(NOW_NS + LATER_NS, on)]


def all_are_stuck(looks: Looks) -> Looks:
    """Everybody has begun everything, and nothing ends."""
    return recorded(looks, lambda trace: {"state": array("B", [State.STARTED] * len(trace))})


def members_are_not_told(looks: Looks) -> Looks:
    """As Gloo's records are."""
    return recorded(
        looks,
        lambda trace: {"groups": tuple(g.model_copy(update={"members": None, "order": None}) for g in trace.groups)},
    )


def one_of_each_node_has_ended(looks: Looks) -> Looks:
    """And its agent remembers it."""
    return [
        look.model_copy(
            update={
                "ranks": look.ranks[1:],
                "exited": (Exited(pid=look.ranks[0].identity.pid or 0, identity=look.ranks[0].identity),),
            }
        )
        for look in looks
    ]


def all_have_ended(looks: Looks) -> Looks:
    """Between two looks."""
    return [*looks, *(each.model_copy(update={"ranks": ()}) for each in at(NOW_NS + LATER_NS, looks))]


def half_are_nowhere(looks: Looks) -> Looks:
    """Every second node is not known of."""
    return looks[::2]


def every_hundredth_calls_something_else(looks: Looks) -> Looks:
    """Where the others call a collective."""

    def odd(rank: RankSnapshot) -> RankSnapshot:
        trace = rank.recorder
        if rank.identity.rank % 97 or not isinstance(trace, Trace):
            return rank
        signatures = tuple(signature._replace(op="barrier") for signature in trace.signatures)
        return rank.model_copy(update={"recorder": trace.model_copy(update={"signatures": signatures})})

    return changed(looks, odd)


def calls(looks: Looks) -> int:
    """Count the calls that a verdict takes."""
    profile = cProfile.Profile()
    profile.enable()
    diagnose(looks, Expected(job=NAME))
    profile.disable()
    return sum(entry.callcount + entry.reccallcount for entry in profile.getstats())


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble",
    [
        list,
        trains,
        all_are_stuck,
        members_are_not_told,
        one_of_each_node_has_ended,
        all_have_ended,
        half_are_nowhere,
        every_hundredth_calls_something_else,
    ],
)
def test_a_verdict_grows_no_faster_than_the_job(trouble: Callable[[Looks], Looks]) -> None:
    diagnose(trouble(hung(FEW)), Expected(job=NAME))  # what is read once for good is read
    assert calls(trouble(hung(MANY))) < MANY / FEW * calls(trouble(hung(FEW)))
