"""Asking `unhang` about a job, as a person would: by its command line, in a process of its own (see warm.py)."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.build.processes.warm import run
from tests.system.live.jobs import Job
from tests.system.live.truths import REPOSITORY, STATUS

ANSWER_SECONDS = 180.0
"""Looks, some seconds apart, patience, and two busy cores."""


class NoAnswer(AssertionError):
    """`unhang` failed instead of answering; carries what it said."""


@dataclass(frozen=True)
class Reply:
    """What `unhang diagnose --json` printed, and the status it exited with."""

    status: int
    answer: dict[str, Any]


def unhang(*arguments: str) -> tuple[str, ...]:
    """Return the command that runs this checkout's `unhang`, wherever it is run from."""
    start = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from cli.__main__ import main; main()"
    return (sys.executable, "-c", start, *arguments)


def diagnose(
    *arguments: str,
    directory: Path,
    patience: float | None = 0.0,
    beside: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Reply:
    """Ask and return the reply; raises `NoAnswer` when there is none. `patience` None: as by default.

    `beside`: a process in whose namespaces the question is asked. `environment`: with which variables; None: with ours.
    """
    if patience is not None:
        arguments = (*arguments, "--patience", f"{patience:g}")
    done = run(
        ("diagnose", "--json", *arguments),
        environment={name: value for name, value in (environment or os.environ).items() if name != "PYTHONPATH"},
        directory=directory,
        seconds=ANSWER_SECONDS,
        beside=beside,
    )
    if done.status not in STATUS.values():
        raise NoAnswer(f"status {done.status}\n{done.out}\n{done.err}")
    return Reply(done.status, json.loads(done.out))


def diagnosed(job: Job, *, patience: float | None = 0.0, environment: Mapping[str, str] | None = None) -> Reply:
    """Ask about a job where it runs: in its container, if it has one. As `diagnose` in all else."""
    return diagnose(job.name, directory=job.directory, patience=patience, beside=job.beside, environment=environment)
