"""Pythons with a framework, beside all that another one has, the tests' own mostly: PyTorch is not installed again.

Each is made once for a checkout, in build/frameworks, by the packages' names.
"""

import fcntl
import subprocess
import sys
import sysconfig
import venv
from functools import cache
from importlib.metadata import distributions

from tests.build.processes.commands import REPOSITORY

OWN = sysconfig.get_path("purelib")
_SECONDS = 280


@cache
def python_with(*packages: str, site: str = OWN) -> str:
    """Return the path of a Python with these packages, of which the last one names it, and the PyTorch of `site`."""
    torch = next(distributions(name="torch", path=[site])).version
    folder = REPOSITORY / "build" / "frameworks" / f"{packages[-1].partition('[')[0]}-{torch}"
    folder.mkdir(parents=True, exist_ok=True)
    done, python = folder / "installed", folder / "bin" / "python"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = f"{sys.executable} {' '.join(packages)} {site}"
        if not done.exists() or done.read_text() != wanted:
            venv.create(folder, symlinks=True)
            scheme = {"base": str(folder), "platbase": str(folder)}
            with open(f"{sysconfig.get_path('purelib', 'posix_prefix', scheme)}/tests.pth", "w") as path:
                path.write(site + "\n")
            install = (sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "install")
            # PyTorch by the version that is there: a framework must not bring another one.
            subprocess.run((*install, "--quiet", f"torch==={torch}", *packages), check=True, timeout=_SECONDS)
            done.write_text(wanted)
    return str(python)
