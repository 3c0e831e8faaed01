"""What `make layouts` is made of, as far as it needs neither network nor CUDA."""

from pathlib import Path

import pytest

from deploy.layouts.build import VERSIONS
from deploy.layouts.page import PAGE, rows
from deploy.layouts.probe import NotCompiled, probe
from deploy.layouts.table import by_version, read_table
from deploy.layouts.wheels import wheels_of_cuda

# Of the wheels of 2.4.0, 2.10.0 and 2.14.1.
OLD = """\
Requires-Dist: nvidia-cuda-runtime-cu12 (==12.1.105) ; platform_system == "Linux" and platform_machine == "x86_64"
Requires-Dist: nvidia-nccl-cu12 (==2.20.5) ; platform_system == "Linux" and platform_machine == "x86_64"
"""
NEWER = """\
Requires-Dist: nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux"
Requires-Dist: nvidia-nccl-cu12==2.27.5; platform_system == "Linux"
"""
NEW = """\
Requires-Dist: cuda-toolkit[cublas,cudart,cufft,nvrtc,nvtx]==13.0.3; platform_system == "Linux"
Requires-Dist: nvidia-nccl-cu13==2.30.7; platform_system == "Linux"
"""


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        (OLD, ["nvidia-nccl-cu12==2.20.5", "nvidia-cuda-runtime-cu12==12.1.105"]),
        (NEWER, ["nvidia-nccl-cu12==2.27.5", "nvidia-cuda-runtime-cu12==12.8.90"]),
        (NEW, ["nvidia-nccl-cu13==2.30.7", "nvidia-cuda-runtime==13.0.*"]),
        ("Requires-Dist: filelock\n", []),
    ],
)
def test_wheels_of_cuda(metadata: str, wanted: list[str]) -> None:
    """Each generation of wheels says in its own way what it needs of CUDA."""
    assert wheels_of_cuda(metadata) == wanted


def test_page_shows_the_table() -> None:
    """`make layouts` writes both."""
    assert rows(read_table()) in PAGE.read_text(encoding="ascii")


def test_every_version_is_in_the_table() -> None:
    """No version is listed that nobody has read."""
    known = {version for layout in read_table()["layouts"] for version in layout["torch"]}
    assert known == set(VERSIONS.split())


def test_versions_are_sorted_as_numbers() -> None:
    """2.9 before 2.10."""
    assert sorted(VERSIONS.split(), key=by_version) == VERSIONS.split()


@pytest.mark.needs("g++")
def test_headers_that_are_not_there(tmp_path: Path) -> None:
    """The compiler says what it misses."""
    with pytest.raises(NotCompiled, match="does not name a type"):
        probe(tmp_path, cuda=False, new_strings=True)
