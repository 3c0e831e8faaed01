"""Fetches an official wheel of PyTorch, and what its headers need of CUDA's, into a folder that is removed again."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

# Requires-Dist: nvidia-nccl-cu12==2.27.5; platform_system == "Linux"
# Requires-Dist: nvidia-nccl-cu12 (==2.20.5) ; platform_system == "Linux" and platform_machine == "x86_64"
_NCCL = re.compile(r"^Requires-Dist: (nvidia-nccl-cu\d+) ?\(?==([\w.]+)\)?", re.MULTILINE)
_RUNTIME = re.compile(r"^Requires-Dist: (nvidia-cuda-runtime-cu\d+) ?\(?==([\w.]+)\)?", re.MULTILINE)
# Requires-Dist: cuda-toolkit[cudart,nvrtc]==13.0.2; platform_system == "Linux"
_TOOLKIT = re.compile(r"^Requires-Dist: cuda-toolkit\[[\w,]+\] ?\(?==(\d+\.\d+)", re.MULTILINE)
# cuda: Optional[str] = '12.8'        cuda = '12.1'
_CUDA = re.compile(r"^cuda\s*(?::[^=\n]*)?=\s*'([\d.]+)'", re.MULTILINE)
_VERSION = re.compile(r"^__version__\s*(?::[^=\n]*)?=\s*'([\w.+]+)'", re.MULTILINE)
_LIBRARIES = ("libtorch_cpu.so", "libtorch_cuda.so")


class Installed(NamedTuple):
    """A PyTorch in a folder: `site` holds `torch`, and `nvidia` where it is one for CUDA."""

    site: Path

    @property
    def torch(self) -> Path:
        return self.site / "torch"

    @property
    def libraries(self) -> list[Path]:
        """Those that hold recorders and process groups."""
        return [library for name in _LIBRARIES if (library := self.torch / "lib" / name).is_file()]

    @property
    def version(self) -> str:
        found = _VERSION.search((self.torch / "version.py").read_text())
        return found[1] if found is not None else "unknown"

    @property
    def release(self) -> str:
        """The version without what stands behind its plus."""
        return self.version.partition("+")[0]

    @property
    def cuda(self) -> str | None:
        found = _CUDA.search((self.torch / "version.py").read_text())
        return None if found is None else found[1]

    @property
    def new_strings(self) -> bool:
        """Whether it was built with _GLIBCXX_USE_CXX11_ABI=1."""
        return "_GLIBCXX_USE_CXX11_ABI=0" not in (self.torch / "share/cmake/Torch/TorchConfig.cmake").read_text()

    @property
    def cuda_headers(self) -> list[Path]:
        return sorted(self.site.glob("nvidia/*/include"))


@contextmanager
def fetched(version: str) -> Iterator[Installed]:
    """Give the official wheel of that version as PyPI has it, for this Python."""
    with TemporaryDirectory(prefix="unhang-layouts-") as folder:
        fetch(version, Path(folder))
        yield Installed(Path(folder))


def fetch(version: str, site: Path) -> None:
    """Put the wheel into a folder, and beside it the wheels of CUDA's runtime and of NCCL, for their headers."""
    _install(site, f"torch==={version}")  # `==` would also take a build of that version for CPUs, 2.13.0+cpu
    (about,) = site.glob("torch-*.dist-info/METADATA")
    if needed := wheels_of_cuda(about.read_text()):
        _install(site, *needed)


def wheels_of_cuda(metadata: str) -> list[str]:
    """Return the requirements for those two, from the metadata of a wheel of PyTorch; none of one without CUDA."""
    exact = [f"{name}=={version}" for name, version in _NCCL.findall(metadata) + _RUNTIME.findall(metadata)]
    return exact + [f"nvidia-cuda-runtime=={release}.*" for release in _TOOLKIT.findall(metadata)]


def _install(site: Path, *wanted: str) -> None:
    options = ("--quiet", "--no-deps", "--no-compile", "--no-cache-dir", "--upgrade", "--target", str(site))
    subprocess.run((sys.executable, "-m", "pip", "install", *options, *wanted), check=True)
