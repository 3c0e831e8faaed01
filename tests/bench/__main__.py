"""`python -m tests.bench`: run every benchmark and print its rows as a Markdown table."""

import os
import platform
import sys

from tests.bench import snapshot


def main() -> int:
    """Run them all; figures go to standard output, progress to standard error."""
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("measuring snapshots …", file=sys.stderr)
    print("| what | figure |\n| --- | --- |")
    for what, figure in snapshot.measure().items():
        print(f"| {what} | {figure} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
