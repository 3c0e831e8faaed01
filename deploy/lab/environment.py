"""An environment under build/lab/ in which an official PyTorch for CUDA runs without a GPU.

It holds the wheel as PyPI has it, without the libraries of NVIDIA that it requires, and stand-ins in their place.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from deploy.lab.standins import NotBuilt, build, digest, require_tools

LAB = Path(os.environ.get("UNHANG_LAB") or Path(__file__).resolve().parents[2] / "build" / "lab")
NEWEST, OF_FRAMEWORKS = "2.15.0", "2.14.1"
"""What frameworks run on follows some months later."""

_BESIDE = ("filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "numpy<2.4", "setuptools<81")
"""What PyTorch imports, of no version in particular."""
_WHY = ("ERROR: Could not", "ERROR: Cannot install", "ERROR: No matching", "ERROR: Failed")
"""How pip begins the line that says what is wrong; advice may follow."""
# Requires-Dist: nvidia-nccl-cu13==2.30.7; platform_system == "Linux"
# Requires-Dist: cuda-toolkit[cublas,cudart]==13.0.3; platform_system == "Linux"
_OF_NVIDIA = re.compile(r"^(Requires-Dist: (?:nvidia-|cuda-|triton)[^;\n]*)(?:;.*)?$", re.MULTILINE)
_PLAIN = dict.fromkeys(("NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE", "NCCL_NVLS_ENABLE"), "0")
"""What a real NCCL is to do without: memory of the driver's and what switches compute."""
_ROOM = 4 << 30
"""Bytes: the largest wheel and what it unpacks to."""


class NoLab(Exception):
    """There can be no such environment here; the text says why."""


class NoVersion(NoLab):
    """Pip does not give this version here."""


class Environment(NamedTuple):
    """Where one is."""

    folder: Path
    libraries: Path
    """The stand-ins, where they have been built."""
    nccl: Path | None = None
    """A real one among them."""

    @property
    def search_path(self) -> str:
        """Where the loader is to look: a real NCCL wants NVML, which would else be in PyTorch's way."""
        return f"{self.libraries}:{self.libraries / 'nvml'}" if self.nccl is not None else str(self.libraries)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site(self) -> Path:
        return next((self.folder / "lib").glob("python*/site-packages"))

    @property
    def is_there(self) -> bool:
        return (self.folder / "complete").is_file() and self.libraries.is_dir()

    def variables(self, files: Path) -> dict[str, str]:
        """Return what a job needs in its environment; `files` is a folder in which communicators meet."""
        return {"LD_LIBRARY_PATH": self.search_path, "LAB_FOLDER": str(files), **(_PLAIN if self.nccl else {})}


def environment(version: str = NEWEST, nccl: Path | None = None) -> Environment:
    """Return where that of a version is, or would be; `nccl`: with this library in the place of the stand-in."""
    folder = LAB / version
    return Environment(folder, folder / f"standins-{digest(nccl)}", nccl)


def make(version: str, nccl: Path | None = None) -> Environment:
    """Make the environment where it is not there, and its stand-ins where their sources are new. Raises NoLab."""
    made = environment(version, nccl)
    try:
        require_tools()  # before a gigabyte is fetched
        if nccl is not None and not nccl.is_file():
            raise NoLab(f"there is no file {nccl}")
        if not (made.folder / "complete").is_file():
            _install(version, made)
        if not made.libraries.is_dir():
            with TemporaryDirectory(dir=made.folder) as folder:  # others may run with them as soon as they are there
                build(made.site, Path(folder) / "built", real_nccl=nccl)
                (Path(folder) / "built").replace(made.libraries)
    except (NotBuilt, OSError) as error:
        raise NoLab(str(error)) from error
    return made


def _install(version: str, made: Environment) -> None:
    LAB.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(LAB).free) < _ROOM:
        raise NoLab(
            f"a PyTorch for CUDA needs {_ROOM >> 30} GiB in {LAB}, and {free / (1 << 30):.1f} GiB are free; "
            "UNHANG_LAB=FOLDER names another place"
        )
    sys.stderr.write(f"lab: fetching PyTorch {version} and installing it in {made.folder}, half a gigabyte or more\n")
    shutil.rmtree(made.folder, ignore_errors=True)
    install = ("--python", str(made.python), "install", "--quiet", "--no-compile", "--disable-pip-version-check")
    try:
        _run("venv", "--without-pip", str(made.folder))
        _run("pip", *install, *_BESIDE)
        try:
            _run("pip", *install, "--no-deps", "--find-links", str(LAB / "wheels"), f"torch==={version}")
        except NoLab as error:
            raise NoVersion(str(error)) from error
        _forget_nvidia(next(made.site.glob("torch-*.dist-info/METADATA")))
        (made.folder / "complete").touch()
    except BaseException:  # an interrupt, too: what is half installed is of no use
        shutil.rmtree(made.folder, ignore_errors=True)
        raise


def _forget_nvidia(about: Path) -> None:
    """What is installed beside PyTorch later, such as frameworks, must not bring what the stand-ins are for."""
    about.write_text(_OF_NVIDIA.sub(r'\1; extra == "nvidia"', about.read_text(encoding="utf-8")), encoding="utf-8")


def _run(*module: str) -> None:
    done = subprocess.run((sys.executable, "-m", *module), capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        why = next((line for line in said if line.startswith(_WHY)), said[-1]).removeprefix("ERROR: ")
        hint = "is there a network, is there such a version, and does pip's configuration permit it?"
        raise NoLab(f"{module[0]} could not make {module[-1]} here: {why[:300]} ({hint})")


if __name__ == "__main__":  # what a lane of tests begins with that would be skipped without it
    try:
        make(OF_FRAMEWORKS)
    except NoLab as error:
        sys.exit(f"lab: {error}")
