"""Does a verdict on others' evidence stay what it is when kubectl, journalctl or a person puts something around it?

`python -m tests.bench.wrapped_evidence ../shared` reads each case of texts below a directory as it is, with each head
before its lines, and pasted into one file in each way, and prints how many verdicts changed. It fails where they are
more than `MOST_CHANGED`.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from collector.files.diagnose_files import diagnose_directory
from tests.build.jobs.wrapped import HEADS, PASTES, headed_text

MOST_CHANGED = 4
"""Of some 1,300: of a log that names one host and journalctl another, and of a file without an ending in grep."""
_OF_TEXT = (".txt", ".log", ".out", ".err", "")

Files = Mapping[str, str]


def cases_below(place: Path) -> Iterator[tuple[str, Files]]:
    """Yield the cases that hold nothing but texts, by name."""
    for folder in sorted((*place.glob("incidents/evidence/*/"), *place.glob("foreign/stacks-logs/*/"))):
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if files and all(path.suffix in _OF_TEXT for path in files):
            yield folder.name, {str(path.relative_to(folder)): path.read_text(errors="replace") for path in files}


def verdict_on(files: Files) -> object:
    """What is said of whom."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        answer = diagnose_directory(Path(folder)).diagnosis
    return answer.verdict, [(each.kind, each.culprit_ranks) for each in answer.findings]


def _headed(head: str, files: Files) -> Files:
    return {name: text if text.lstrip()[:1] == "{" else headed_text(head, text) for name, text in files.items()}


def _pasted(paste: Callable[[Files], str], files: Files) -> Files:
    return {"report.md": paste(files)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each way; 1 where too many verdicts changed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("place", type=Path, help="the directory that holds foreign/ and incidents/")
    known = {name: (files, verdict_on(files)) for name, files in cases_below(options.parse_args(arguments).place)}
    ways = {name: partial(_headed, head) for name, head in HEADS.items()}
    ways |= {name: partial(_pasted, paste) for name, paste in PASTES.items()}
    changed = 0
    for name, wrap in ways.items():
        others = [case for case, (files, said) in known.items() if verdict_on(wrap(files)) != said]
        changed += len(others)
        print(f"{name:36} {len(others):3} of {len(known)}  {' '.join(others)}", flush=True)
    print(f"{changed} of {len(known) * len(ways)} verdicts changed")
    return int(changed > MOST_CHANGED or not known)


if __name__ == "__main__":
    sys.exit(main())
