"""What an agent knows from its beats about real ranks: how far they are, and what one did last before it died."""

import os
import signal
from pathlib import Path

import pytest

from agent.agent import Agent, RankFilter
from agent.deadline import Deadline
from agent.settings import AgentSettings
from agent.sources.source import LookDepth
from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Kind
from shared.wire.snapshot import NodeSnapshot
from shared.wire.trace import Marks
from tests.build.processes.looking import rank_of
from tests.build.processes.processes import until
from tests.system.live.jobs import Job

pytestmark = [pytest.mark.live, pytest.mark.ptrace]


def test_what_a_killed_rank_issued_last_survives_it(tmp_path: Path) -> None:
    """Nobody asked about it while it lived; the other one waits in the store for its word.

    Its ranks are real interpreters: the memory of a fork is searched only once that of its parent has been, and whether
    the server of forks gives a reason to search its own is no part of this.
    """
    agent = Agent(AgentSettings(beat_seconds=0.2, discover_seconds=0.2))
    agent.start()
    try:
        later = {"UNHANG_TEST_KILLED_LATER": "1", "FAULTY_RANK": "1"}
        with Job("killed_rank", directory=tmp_path, recorded=True, environment=later, ranks=2) as job:
            pid = job.ranks[1]
            key = rank_of(pid).key
            alive = until(lambda: agent.node.watch.marks(key), has_done_all)
            os.kill(pid, signal.SIGKILL)
            choice = RankFilter(job=job.name)
            dead = until(lambda: agent.snapshot(choice, LookDepth()), lambda look: bool(look.exited))
            again = agent.snapshot(choice, LookDepth(stacks="native"))
    finally:
        agent.stop()
    assert alive is not None
    (exited,) = dead.exited
    assert exited.last_marks is not None
    assert exited.last_marks.groups == alive.groups
    assert exited.gone_by_ns is not None
    assert exited.gone_by_ns > exited.last_marks.read_at_ns > exited.last_marks.groups[0].issued_at_ns
    world = {mark.description: mark for mark in alive.groups}["default_pg"]
    assert (world.op, world.completed) == ("all_reduce", world.sequence)
    assert f"all_reduce #{world.sequence} of group default_pg, at most" in told_of_death(dead, again)


def has_done_all(marks: Marks | None) -> bool:
    """Has the rank completed whatever it has issued to the world?"""
    world = [] if marks is None else [mark for mark in marks.groups if mark.description == "default_pg"]
    return bool(world) and all(mark.completed == mark.sequence for mark in world)


def told_of_death(*looks: NodeSnapshot) -> str:
    """Return what the finding says of the rank's last operation."""
    (finding,) = diagnose(looks, Expected(job=looks[0].ranks[0].identity.job)).findings
    assert (finding.kind, finding.culprit_ranks) == (Kind.RANK_EXITED, (1,))
    (text,) = (each.text for each in finding.evidence if "before it died" in each.text)
    return text


def test_rank_that_goes_on_has_moved(tmp_path: Path) -> None:
    """And a rank that stands still is where it was, since the first beat."""
    agent = Agent(AgentSettings(beat_seconds=0))
    with Job("healthy", directory=tmp_path, ranks=2, forked=True, recorded=True) as job:
        key = rank_of(job.ranks[0]).key
        first = beaten(agent, key)
        until(lambda: beaten(agent, key)["default_pg"][0], lambda sequence: sequence > first["default_pg"][0])
        os.kill(job.ranks[0], signal.SIGSTOP)
        until(lambda: beaten(agent, key) == beaten(agent, key), bool)
        stopped, later = beaten(agent, key), beaten(agent, key)
    assert stopped == later


def beaten(agent: Agent, key: tuple[int, int]) -> dict[str, tuple[int, int]]:
    """Take a beat; return the number of the last operation of each group, and since when it is there."""
    agent.ranks()
    agent.node.beat(Deadline(10))
    marks = agent.node.watch.marks(key)
    assert marks is not None
    return {mark.description: (mark.sequence or 0, mark.since_ns) for mark in marks.groups}
