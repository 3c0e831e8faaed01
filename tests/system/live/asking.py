"""Asking `unhang` about a job, as a person would: by its command line, in a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def diagnose(job: str, *arguments: str, directory: Path, patience: float | None = 0.0) -> Reply:
    """Ask about `job` and return the reply; raises `NoAnswer` when there is none. `patience` None: as by default."""
    if patience is not None:
        arguments = (*arguments, "--patience", f"{patience:g}")
    done = subprocess.run(
        unhang("diagnose", job, "--json", *arguments),
        cwd=directory,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS,
        check=False,
    )
    if done.returncode not in STATUS.values():
        raise NoAnswer(f"status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return Reply(done.returncode, json.loads(done.stdout))
