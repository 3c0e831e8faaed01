"""Run all programs, with the probe, with records in memory alone, and with neither, and print who was right:
`python -m tests.system.live.zoo`.

Names of programs as arguments choose some of them; `--mode` chooses one mode. The exit
status is 0 when an innocent was named in none, and enough answers were right.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.answer.diagnosis import Diagnosis
from tests.build.jobs.acts import Mark, mark_of
from tests.system.live.asking import NoAnswer, diagnosed
from tests.system.live.jobs import Job, JobFailed
from tests.system.live.truths import Mode, Truth, all_programs, named, read_truth

ENOUGH: dict[Mode, float] = {"probe": 0.95, "memory": 0.95, "bare": 0.80}
"""What share of the answers must be right."""


@dataclass(frozen=True)
class Outcome:
    """How it went with one program in one mode."""

    program: str
    mode: Mode
    seconds: float
    answer: dict[str, Any]
    wrong: tuple[str, ...]

    @property
    def innocents(self) -> frozenset[int]:
        """Ranks that were named and had done nothing."""
        return named(self.answer) - Truth.of(self.program, self.mode).culprits

    def __str__(self) -> str:
        """One line of the table."""
        verdict = "wrong" if self.wrong else "right"
        columns = f"{self.program:32} {self.mode:5} {verdict:5} {self.seconds:5.1f} s"
        return f"{columns}  {_said(self.answer):58}  {'; '.join(self.wrong)}".rstrip()


def try_program(program: str, mode: Mode) -> Outcome:
    """Run one program and ask about it."""
    started = time.monotonic()
    nothing: dict[str, Any] = {"verdict": "none", "findings": []}
    with tempfile.TemporaryDirectory() as directory:
        try:
            with Job(program, directory=Path(directory), probe=mode == "probe", recorded=mode == "memory") as job:
                reply = diagnosed(job, patience=None)
        except (JobFailed, NoAnswer) as error:
            return Outcome(program, mode, time.monotonic() - started, nothing, (" ".join(str(error).split())[:300],))
    truth, answer = read_truth(program), Diagnosis.model_validate(reply.answer)
    mark = mark_of(answer, truth.get("kinds", ()), truth.get("causes", ()))
    wrong = Truth.of(program, mode).disagreements(reply.answer, reply.status)
    if mark in (Mark.WRONG, Mark.EXCLUDES):
        assert answer.action is not None
        wrong = [*wrong, f"{mark} act {answer.action.do}"]
    return Outcome(program, mode, time.monotonic() - started, reply.answer, tuple(wrong))


def summarise(outcomes: Sequence[Outcome]) -> tuple[str, bool]:
    """Return the last lines of the table, and whether the zoo is content."""
    lines, content = [""], True
    for mode, enough in ENOUGH.items():
        of_mode = [outcome for outcome in outcomes if outcome.mode == mode]
        if not of_mode:
            continue
        right = sum(not outcome.wrong for outcome in of_mode)
        blamed = sum(bool(outcome.innocents) for outcome in of_mode)
        lines.append(f"{mode:5}  {right}/{len(of_mode)} right (at least {enough:.0%}), innocents named in {blamed}")
        content = content and right >= enough * len(of_mode) and not blamed
    return "\n".join(lines), content


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.live.zoo", description="Run programs that hang.")
    parser.add_argument("programs", nargs="*", default=all_programs())
    parser.add_argument("--mode", choices=tuple(ENOUGH))
    chosen = parser.parse_args(arguments)
    outcomes = []
    for program, mode in _pairs(chosen.programs, chosen.mode):
        outcomes.append(try_program(program, mode))
        print(outcomes[-1], flush=True)
    summary, content = summarise(outcomes)
    print(summary)
    return 0 if content else 1


def _pairs(programs: Sequence[str], only: Mode | None) -> Iterator[tuple[str, Mode]]:
    modes: tuple[Mode, ...] = tuple(ENOUGH) if only is None else (only,)
    return ((program, mode) for program in programs for mode in modes)


def _said(answer: dict[str, Any]) -> str:
    if not answer["findings"]:
        return str(answer["verdict"])
    first = answer["findings"][0]
    ranks = ",".join(str(culprit["rank"]) for culprit in first["culprits"]) or "-"
    return f"{answer['verdict']} {first['kind']} {first['cause']} {first['certainty']} [{ranks}]"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
