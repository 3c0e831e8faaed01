"""Interpreters of other versions than ours, as far as this machine has them."""

import sys
from collections.abc import Mapping
from functools import cache
from glob import glob
from pathlib import Path


@cache
def pythons() -> Mapping[str, str]:
    """Return our own, and one of each other version whose threads can be read, installed or by pyenv: by version."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    for version in ("3.11", "3.12", "3.13", "3.14"):
        for place in sorted(
            (*glob(f"/usr/bin/python{version}"), *glob(f"{Path.home()}/.pyenv/versions/{version}.*/bin/python3"))
        ):
            found.setdefault(version, place)
    return found
