"""Next steps ask whom the question was put to."""

import pytest

from shared.answer.diagnosis import NextStep
from shared.answer.follow_up import asked_through
from tests.build.jobs.verdicts import rank_not_joined


def commands(*source: str, given: str) -> str | None:
    """The command of one step after it was asked through a source."""
    diagnosis = rank_not_joined().model_copy(update={"next_steps": (NextStep(text="x", command=given),)})
    (step,) = asked_through(diagnosis, *source).next_steps
    return step.command


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            "unhang stacks --rank 2 --native -- demo",
            "unhang stacks --collector http://head:8470 --rank 2 --native -- demo",
        ),
        ("unhang diagnose --interval 61", "unhang diagnose --collector http://head:8470 --interval 61"),
        ("unhang jobs", "unhang jobs --collector http://head:8470"),
        ("unhang run -- torchrun train.py", "unhang run -- torchrun train.py"),
        ("unhang history --job demo", "unhang history --collector http://head:8470 --job demo"),
        ("kill -CONT 7", "kill -CONT 7"),
        ("kubectl exec a -- unhang stacks", "kubectl exec a -- unhang stacks"),
    ],
)
def test_the_collector_is_asked_again(given: str, expected: str) -> None:
    """Every command that takes a source gets it, no other one."""
    assert commands("--collector", "http://head:8470", given=given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("unhang sequences -- demo", "unhang sequences --from dumps -- demo"),
        ("unhang stacks --rank 2 --native -- demo", "unhang stacks --from dumps --rank 2 -- demo"),
        ("unhang preflight --ssh --hosts a,b", "unhang preflight --ssh --hosts a,b"),
        ("unhang diagnose --patience 61 -- demo", None),
        ("unhang history --job demo", None),
        ("kill -CONT 7", None),
    ],
)
def test_files_are_asked_for_what_is_in_them(given: str, expected: str | None) -> None:
    """No process of a saved look is signalled, and no question is put to it again."""
    assert commands("--from", "dumps", given=given) == expected


def test_of_findings_too_and_quoted() -> None:
    """What users gave stays a word."""
    asked = asked_through(rank_not_joined(), "--ssh", "--hosts", "node[1-2];reboot")
    told = [step.command for finding in asked.findings for step in finding.next_steps if step.command]
    assert any("unhang stacks --ssh --hosts 'node[1-2];reboot' --rank 2" in command for command in told)


def test_a_source_that_cannot_be_quoted_leaves_no_command() -> None:
    """A command that asks somebody else is worse than none."""
    assert commands("--collector", "http://a\x1b[31m", given="unhang stacks -- demo") is None


def test_without_a_source_nothing_changes() -> None:
    """On one box."""
    assert asked_through(rank_not_joined()) == rank_not_joined()
