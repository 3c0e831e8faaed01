"""One answer is bounded, however much the jobs of a node have to tell."""

from pathlib import Path

import pytest

from agent.agent import Agent, RankFilter
from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.settings import AgentSettings
from agent.sources.look_context import AnswerLimits, LookContext, size_of
from agent.sources.source import Answer, LookDepth, Metered
from shared.missing import Missing, Reason
from shared.wire.snapshot import Fds, NodeSnapshot
from tests.build.processes.looking import rank_of
from tests.build.processes.processes import HERE, READY, rank_environment, running

PORT = 29421


class Telling:
    """A source that tells as much as it is asked to, and counts how often it is asked."""

    name = "fds"

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked = 0

    def look(self, *_: object) -> Answer:
        self.asked += 1
        return {"fds": Fds(total=1, devices=("x" * self.size,))}


def test_what_no_longer_fits_is_refused_and_what_is_smaller_is_not() -> None:
    """It is missing with its reason; the next, smaller one is told; where there is no room none is asked."""
    context, one = LookContext(ProcFs(), "here"), rank_of(1)
    context.allowance = AnswerLimits(10_000)
    large, small = Telling(9_000), Telling(500)

    def look(source: Telling) -> object:
        return Metered(source).look(one, context, LookDepth(), Deadline(5))["fds"]

    assert look(large) is not None
    with pytest.raises(Unavailable, match="larger than 10000 bytes") as refused:
        look(large)
    assert refused.value.reason is Reason.REFUSED
    assert look(small) is not None
    context.allowance = AnswerLimits(0)
    with pytest.raises(Unavailable):
        look(small)
    assert (large.asked, small.asked) == (2, 1)


def test_size_is_that_of_the_answer() -> None:
    """As it travels: children, which are a tuple, too."""
    fds = Fds(total=1, devices=("x" * 1000,))
    assert size_of([fds, (fds, fds), None, "text"]) == 3 * len(fds.model_dump_json())


@pytest.mark.ptrace
def test_answer_about_a_hostile_job_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks with many descriptors of long names: those that fit are told whole, the others say why they are not."""
    monkeypatch.setattr("agent.sources.look_context.MOST_BYTES", 3_000_000)
    monkeypatch.setattr(AnswerLimits.__init__, "__defaults__", (3_000_000,))
    folder = tmp_path.joinpath(*["x" * 250] * 14)
    folder.mkdir(parents=True)
    program = f"import os\nos.chdir({str(folder)!r})\nkept = [open('shard', 'w') for _ in range(500)]\n"
    agent = Agent(AgentSettings(host_name="here", beat_seconds=0, look_timeout_seconds=60.0))
    with (
        running(program + READY + "time.sleep(600)\n", env=rank_environment(0, port=PORT)),
        running(program + READY + "time.sleep(600)\n", env=rank_environment(1, port=PORT)),
    ):
        taken = agent.snapshot(RankFilter(job=f"{HERE}:{PORT}"), LookDepth("none", full=True))
    agent.stop()
    assert len(taken.ranks) == 2
    assert len(NodeSnapshot.model_dump_json(taken)) < 3_300_000
    assert sorted(type(rank.fds).__name__ for rank in taken.ranks) == ["Fds", "Missing"]
    (refused,) = (rank.fds for rank in taken.ranks if isinstance(rank.fds, Missing))
    assert (refused.source, refused.reason) == ("fds", Reason.REFUSED)
