"""`python -m tests.bench`: run every benchmark and print its rows as a Markdown table."""

import os
import platform
import sys

from tests.bench import accuracy, cluster, from_disk, long_logs, memory, one_box, preflight, snapshot, verdict

_BENCHMARKS = (
    ("snapshots", snapshot.measure),
    ("records and marks from memory", memory.measure),
    ("verdict on one box", one_box.measure),
    ("dumps on disk", from_disk.measure),
    ("long logs", long_logs.measure),
    ("the pure verdict", verdict.measure),
    ("a cluster", cluster.measure),
    ("preflight", preflight.measure),
)


def main() -> int:
    """Run them all; figures go to standard output, progress to standard error."""
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    for name, measure in _BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr)
        print("| what | figure |\n| --- | --- |")
        for what, figure in measure().items():
            print(f"| {what} | {figure} |")
        print()
    print("judging simulated faults …", file=sys.stderr)
    for line in accuracy.measure():
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
