"""What every verdict offers to do next breaks none of the rules, however it was asked for."""

import pytest

from collector.judge.verdict import diagnose
from shared.answer.diagnosis import NextStep
from shared.answer.follow_up import asked_through
from shared.answer.words import Cause
from tests.bench.advice import Case, absurd, recorded
from tests.build.jobs.advice_rules import Situation, complaints
from tests.build.jobs.verdicts import VERDICTS, rank_not_joined
from tests.build.simulation.scenario import draw

SOURCES = {
    "box": (),
    "collector": ("--collector", "http://head:8470"),
    "ssh": ("--ssh", "--hosts", "node[1-2]"),
    "files": ("--from", "dumps"),
}
LIVE = Situation()
DEAD = Situation(("--from", "dumps"), live=False)


def said_of(*steps: NextStep, situation: Situation = LIVE) -> set[str]:
    """The rules that an answer with these steps breaks, beside those that it broke before."""
    answer = rank_not_joined()
    (finding,) = answer.findings
    told = finding.model_copy(update={"next_steps": steps, "cause": Cause.UNKNOWN})
    return {each.rule for each in complaints(answer.model_copy(update={"findings": (told,)}), situation)}


@pytest.mark.parametrize("name", sorted(VERDICTS.keys() - {"hostile"}))
@pytest.mark.parametrize("source", SOURCES)
def test_verdicts(name: str, source: str) -> None:
    """The simulated, the recorded, the one with two faults, and those that cannot tell or say that nothing hangs."""
    made = VERDICTS[name]()
    answer = asked_through(made, *SOURCES[source])
    situation = Situation(SOURCES[source], live=made.job is not None and source != "files")
    assert list(map(str, complaints(answer, situation))) == []


@pytest.mark.parametrize("case", list(recorded()), ids=lambda case: case.name)
def test_recorded_jobs(case: Case) -> None:
    """Each printed command is run as printed, and shows something."""
    _, answer, found = absurd(case)
    assert list(map(str, found)) == []
    assert answer is not None and answer.action is not None
    assert answer.next_steps or any(finding.next_steps for finding in answer.findings)


@pytest.mark.parametrize("seed", range(40))
def test_simulated_faults(seed: int) -> None:
    """Forty jobs with one fault each, as dumps."""
    scenario = draw(seed)
    answer = asked_through(diagnose(scenario.dumps, scenario.expected), *DEAD.source)
    assert list(map(str, complaints(answer, DEAD))) == []


@pytest.mark.parametrize(
    ("rule", "text", "command", "situation"),
    [
        ("does not run", "look", "unhang stacks --no-such-option", LIVE),
        ("does not run", "examine the rest", "unhang diagnose --ssh --hosts NODES", LIVE),
        ("does not run", "start it again", "unhang run -- torchrun …", LIVE),
        ("asks another", "see who is behind", "unhang sequences", DEAD),
        ("repeats the question", "ask", "unhang diagnose --from dumps", DEAD),
        ("live, of a dead job", "resume it", "kill -CONT 7", DEAD),
        ("live, of a dead job", "show its stack", "unhang stacks --from dumps --native", DEAD),
        ("not in the evidence", "torchft's lighthouse lists who has joined", None, LIVE),
        ("not in the evidence", "check network, GPUs and driver", None, LIVE),
        ("not in the evidence", "show the stack of rank 9", "unhang stacks --rank 9 -- sim", LIVE),
        ("broken words", "the logs of the other -18 do not say", None, LIVE),
        ("broken words", "1 ranks wait", None, LIVE),
    ],
)
def test_rules_can_fail(rule: str, text: str, command: str | None, situation: Situation) -> None:
    """Each of them, by a step as it was once printed, or might be."""
    assert rule in said_of(NextStep(text=text, command=command), situation=situation)


def test_step_that_stands_there_twice_and_none_at_all() -> None:
    """Neither helps."""
    step = NextStep(text="look at it", command="unhang stacks -- sim")
    assert said_of(step, step) == {"said twice"}
    assert said_of() == {"no step"}
    assert said_of(step) == set()


def test_no_command_is_made_of_names_that_cannot_be_copied() -> None:
    """The text says so, once."""
    steps = [step for finding in VERDICTS["hostile"]().findings for step in finding.next_steps]
    assert all(step.command is None for step in steps)
    assert any("no command is given" in step.text for step in steps)
