"""Whom PyTorch's own analyser blames: `torchfrtrace` of the installed torch, over many directories of dumps.

As a program (`python -m tests.bench.torchfrtrace`) it reads directories from standard input and prints one line of JSON
for each. That program runs as a child, because the analyser may raise, end the process, or never come back.
"""

import contextlib
import io
import json
import logging
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

# error msg: Culprit rank 2; Error type: COLLECTIVE_TYPE_MISMATCH, Expected collective type: …, Culprit rank 1; …
_CULPRIT = re.compile(r"Culprit rank (\d+);")
# missing ranks: {2}
_MISSING = re.compile(r"^missing ranks: \{([\d, ]*)\}$", re.MULTILINE)
_SECONDS = 20.0
"""For one case, after which the analyser is taken not to come back."""


@dataclass(frozen=True)
class Said:
    """What it has said of one case: the ranks of each message in their order, or how it has failed."""

    messages: tuple[frozenset[int], ...] = ()
    failure: str | None = None

    @property
    def blamed(self) -> frozenset[int]:
        return frozenset().union(*self.messages)


def analyse(directories: Sequence[Path]) -> list[Said]:
    """Run the analyser over all `directories`, in as few processes as its failures allow."""
    answers: list[Said] = []
    while len(answers) < len(directories):
        answers += _some(directories[len(answers) :])
    return answers


def _some(directories: Sequence[Path]) -> list[Said]:
    """Answers of one child, up to the case that it has died of."""
    with tempfile.TemporaryFile("w+") as listed:
        listed.writelines(f"{directory}\n" for directory in directories)
        listed.seek(0)
        command = [sys.executable, "-m", "tests.bench.torchfrtrace"]
        with subprocess.Popen(
            command, stdin=listed, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as child:
            answers = list(_answers(child))
            child.kill()
    died = Said(failure="died or did not come back")
    return answers if len(answers) == len(directories) else [*answers, died]


def _answers(child: "subprocess.Popen[str]") -> Iterator[Said]:
    assert child.stdout is not None
    while True:
        watch = Timer(_SECONDS, child.kill)
        watch.start()
        line = child.stdout.readline()
        watch.cancel()
        if not line.endswith("\n"):
            return
        told = json.loads(line)
        yield Said(tuple(map(frozenset, told["messages"])), told["failure"])


def main() -> None:
    """Analyse the directories that standard input lists."""
    from torch.distributed.flight_recorder import fr_trace
    from torch.distributed.flight_recorder.components import utils

    if not hasattr(utils, "tabulate"):  # it prints batches of sends by a package, and fails where that is not installed
        utils.tabulate = str
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_analysed(fr_trace, line.strip())) + "\n")
        sys.stdout.flush()


def _analysed(fr_trace: object, directory: str) -> dict[str, object]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logger = logging.getLogger("Flight Recorder")
    logger.handlers = [handler]
    failure = None
    try:
        with contextlib.redirect_stdout(written):
            fr_trace.main([directory, "--prefix", "trace_", "--allow-incomplete-ranks"])  # type: ignore[attr-defined]
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a foreign analyser raises is its answer
        failure = f"{type(error).__name__}: {error}"[:200]
    return {"messages": _messages(written.getvalue()), "failure": failure}


def _messages(text: str) -> list[list[int]]:
    """The ranks that each printed message blames, in the order of printing."""
    found = [(match.start(), [int(number) for number in match[1].split(",")]) for match in _MISSING.finditer(text)]
    for match in re.finditer(r"^error msg: .*$", text, re.MULTILINE):
        found.append((match.start(), [int(rank) for rank in _CULPRIT.findall(match[0])]))
    return [ranks for _, ranks in sorted(found)]


if __name__ == "__main__":
    main()
