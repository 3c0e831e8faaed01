"""How often the verdict is right about evidence that others made, and that it never falls below what it has reached.

The evidence and its two scorers lie beside the project, where they are at hand, and are no part of it:
`python -m tests.bench.foreign_evidence ../shared` runs both and fails below `FLOORS`.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TOOL = f"{sys.executable} -m cli diagnose --json --from {{dir}}"
SECONDS = 1800


@dataclass(frozen=True)
class Floor:
    """What one scorer has to say at least: so many right, and nothing wrong."""

    scorer: str
    total: re.Pattern[str]
    """Its line of totals, with the numbers of `right` and `wrong`."""
    right: int


FLOORS = (
    # total                112     0      2
    Floor("foreign/score.py", re.compile(r"^total +(?P<right>\d+) +(?P<wrong>\d+) ", re.MULTILINE), 112),
    # right 29 of 33 enough, wrong 0 of all 53; RIGHT 29, …
    Floor("incidents/score.py", re.compile(r"^right (?P<right>\d+) of .*?, wrong (?P<wrong>\d+) ", re.MULTILINE), 29),
)


def complaint(floor: Floor, said: str) -> str | None:
    """Return what is wrong with what a scorer printed; None where it is as good as ever."""
    total = floor.total.search(said)
    if total is None:
        return f"{floor.scorer} printed no totals"
    right, wrong = int(total["right"]), int(total["wrong"])
    if wrong or right < floor.right:
        return f"{floor.scorer}: {right} right and {wrong} wrong, where {floor.right} right and none wrong were reached"
    return None


def score(place: Path, floor: Floor, tool: str = TOOL) -> str | None:
    """Run one scorer in `place`, show what it prints, and return the complaint about it."""
    command = [sys.executable, str(place / floor.scorer), "--tool", tool]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=SECONDS)
    print(done.stdout, done.stderr, sep="", flush=True)
    return complaint(floor, done.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both scorers; 1 where one of them complains."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("place", type=Path, help="the directory that holds foreign/ and incidents/")
    place = options.parse_args(arguments).place.resolve()
    complaints = [said for floor in FLOORS if (said := score(place, floor)) is not None]
    print(*complaints, sep="\n", end="\n" if complaints else "", file=sys.stderr)
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
