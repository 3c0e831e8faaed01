"""Pythons with a framework, beside all that the tests' own one has: PyTorch is not installed a second time.

Each is made once for a checkout, in build/frameworks, by the packages' names.
"""

import fcntl
import subprocess
import sys
import sysconfig
import venv
from functools import cache
from importlib.metadata import version

from tests.build.processes.commands import REPOSITORY

_SECONDS = 280


@cache
def python_with(*packages: str) -> str:
    """Return the path of a Python that has these packages, of which the last one names it."""
    folder = REPOSITORY / "build" / "frameworks" / packages[-1].partition("[")[0]
    folder.mkdir(parents=True, exist_ok=True)
    done, python = folder / "installed", folder / "bin" / "python"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = f"{sys.executable} {' '.join(packages)} torch {version('torch')}"
        if not done.exists() or done.read_text() != wanted:
            venv.create(folder, symlinks=True)
            scheme = {"base": str(folder), "platbase": str(folder)}
            site = sysconfig.get_path("purelib", "posix_prefix", scheme)
            with open(f"{site}/tests.pth", "w") as path:
                path.write(sysconfig.get_path("purelib") + "\n")
            install = (sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "install")
            # PyTorch by the version that is there: a framework must not bring another one.
            subprocess.run((*install, "--quiet", f"torch=={version('torch')}", *packages), check=True, timeout=_SECONDS)
            done.write_text(wanted)
    return str(python)
