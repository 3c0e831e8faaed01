"""Programs that tests call and a machine may lack: which Debian package has them."""

import shutil
from functools import cache
from pathlib import Path

import pytest

_PACKAGES = Path(__file__).with_name("debian-packages")


@cache
def packages() -> dict[str, str]:
    """Return the Debian package of each program that a test may need."""
    lines = _PACKAGES.read_text(encoding="ascii").splitlines()
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return dict(row for row in rows if len(row) == 2)


def skip_without(*programs: str) -> None:
    """Skip the test that runs where one of these is absent. Raises KeyError for a program of an unknown package."""
    wanted = {name: packages()[name] for name in programs}
    absent = [f"{name} (Debian: {package})" for name, package in wanted.items() if shutil.which(name) is None]
    if absent:
        pytest.skip(f"needs {', '.join(absent)}")
