"""Interpreters of other versions than ours, as far as this machine has them."""

import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from glob import glob
from pathlib import Path

_MINOR = range(11, 15)


@cache
def pythons() -> Mapping[str, str]:
    """Return our own, and one of each other version whose threads can be read, installed or by pyenv: by version."""
    places = [f"/usr/bin/python3.{minor}" for minor in _MINOR]
    places += [
        place for minor in _MINOR for place in sorted(glob(f"{Path.home()}/.pyenv/versions/3.{minor}.*/bin/python3"))
    ]
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    for place in filter(lambda place: Path(place).exists(), places):
        said = subprocess.run([place, "-V"], capture_output=True, text=True, check=False).stdout.split()
        if said:
            found.setdefault(said[1].rpartition(".")[0], place)
    return found
