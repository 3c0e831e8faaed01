"""What every verdict offers to copy, as the command line takes it: not even options that it does not have."""

import shlex

import click
import pytest

from cli.main import unhang
from shared.answer.diagnosis import Diagnosis
from shared.answer.follow_up import asked_through
from tests.build.jobs.verdicts import VERDICTS

SOURCES = {"box": (), "collector": ("--collector", "http://head:8470"), "files": ("--from", "dumps")}


def offered(diagnosis: Diagnosis) -> list[list[str]]:
    """The commands of each finding, or of the whole where there is none, apart from that for the next start."""
    steps = [finding.next_steps for finding in diagnosis.findings] or [diagnosis.next_steps]
    return [[step.command for step in each if step.command and " run " not in step.command] for each in steps]


@pytest.mark.parametrize("name", sorted(VERDICTS.keys() - {"hostile"}))
@pytest.mark.parametrize("source", SOURCES)
def test_every_finding_and_every_verdict_without_one_has_a_command(name: str, source: str) -> None:
    """The simulated, the recorded, the one with two faults, and those that cannot tell or say that nothing hangs."""
    for commands in offered(asked_through(VERDICTS[name](), *SOURCES[source])):
        assert commands, name
        for command in commands:
            program, chosen, *words = shlex.split(command)
            if program == "unhang":
                # With its parent, as always: a command keeps the option for help that it has been parsed with.
                parent = unhang.make_context("unhang", [chosen])
                assert isinstance(unhang.commands[chosen].make_context(chosen, words, parent=parent), click.Context)
            else:
                assert program in ("kill", "ping", "kubectl", "rm")


def test_no_command_is_made_of_names_that_cannot_be_copied() -> None:
    """The text says so, once."""
    diagnosis = VERDICTS["hostile"]()
    assert offered(diagnosis) == [[]]
    assert all("no command is given" in step.text for finding in diagnosis.findings for step in finding.next_steps)
