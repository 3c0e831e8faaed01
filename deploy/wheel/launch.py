"""Starts the `unhang` command; in the wheel this file is all of the importable package `unhang`."""

import sys
from pathlib import Path

_APP = Path(__file__).parent / "_app"


def main() -> None:
    """Run the command line, with our own packages before anyone else's `shared`, in this process alone."""
    if _APP.is_dir():  # not in an editable install, where a .pth file names the checkout
        sys.path.insert(0, str(_APP))
    from cli.main import main as run

    run()
