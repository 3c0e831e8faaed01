"""Next steps as whoever asked would take them: a verdict does not know whether a collector or ssh was asked."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from shared.answer.action import Action
from shared.answer.diagnosis import Diagnosis, NextStep
from shared.shell_commands import MOST_CHARACTERS, copyable

# unhang stacks --native --rank 2 -- demo-11214
_ABOUT_A_JOB = re.compile(
    r"(unhang (?:diagnose|stacks|sequences|logs|fds|check|look|jobs))\b(?!.* --(?:ssh|from|collector)\b)"
)
"""Commands that take a source, and have none yet."""

# unhang history --job demo-11214
_OF_A_COLLECTOR = re.compile(r"(unhang history)\b(?!.* --collector\b)")

# unhang sequences -- demo-11214        unhang preflight --ssh --hosts a,b
_OF_FILES = re.compile(r"unhang (?:stacks|sequences|logs|fds|check|preflight)\b")
"""Commands that mean something where files were read: what signals, attaches or looks again needs the job itself."""


def asked_through(diagnosis: Diagnosis, *source: str) -> Diagnosis:
    """Return the diagnosis with `source`, such as `--collector URL`, in all of its commands that take one.

    A command for which that is too long or cannot be quoted is left out: without it, it would ask somebody else. So is
    one for a job that runs, where files were read.
    """
    if not source:
        return diagnosis
    words = _Words(copyable(*source), is_collector=source[0] == "--collector", is_files=source[0] == "--from")
    return diagnosis.model_copy(
        update={
            "action": _act(diagnosis.action, words),
            "next_steps": _steps(diagnosis.next_steps, words),
            "findings": tuple(
                each.model_copy(
                    update={"action": _act(each.action, words), "next_steps": _steps(each.next_steps, words)}
                )
                for each in diagnosis.findings
            ),
        }
    )


class _Words(NamedTuple):
    """The source as words of a command; None where they cannot be quoted."""

    text: str | None
    is_collector: bool
    is_files: bool


def _steps(steps: Iterable[NextStep], words: _Words) -> tuple[NextStep, ...]:
    return tuple(step.model_copy(update={"command": _command(step.command, words)}) for step in steps)


def _act(action: Action | None, words: _Words) -> Action | None:
    return None if action is None else action.model_copy(update={"command": _command(action.command, words)})


def _command(command: str | None, words: _Words) -> str | None:
    if command is not None and words.is_files:
        command = command.replace(" --native", "") if _OF_FILES.match(command) else None
    begun = None if command is None else _ABOUT_A_JOB.match(command)
    if command is not None and begun is None and words.is_collector:
        begun = _OF_A_COLLECTOR.match(command)
    if command is None or begun is None:
        return command
    whole = None if words.text is None else f"{begun[1]} {words.text}{command[begun.end() :]}"
    return whole if whole is not None and len(whole) <= MOST_CHARACTERS else None
