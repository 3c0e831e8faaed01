"""The Python that the programs of other projects run with, and the copies of repositories that they are in."""

import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.system.frameworks.environments import python_with
from tests.system.live.truths import REPOSITORY

BUILD = REPOSITORY / "build" / "healthy"
REPOSITORIES = BUILD / "repositories"

_PACKAGES = (
    "torchvision", "lightning[extra]", "torchmetrics", "transformers", "datasets", "skorch", "timm", "fire",
    "gymnasium[classic-control]", "pytorch-ignite", "ray[train]", "trl",
)  # fmt: skip

REVISIONS: Mapping[str, str] = {
    "pytorch/examples": "77f55b912142e11fcfdf5b530231fb9c52f181e8",
    "karpathy/nanoGPT": "3adf61e154c3fe3fca428ad6bc3818b27a3b8291",
    "pytorch/ignite": "de08e799cfb55a6cf4aa778575d6bad725385453",
    "Lightning-AI/pytorch-lightning": "7f0c3436cd3f6ad3753125672024fc415cbcb414",
    "huggingface/pytorch-image-models": "aa4b5850c1543fa488abf260f18390eda46cf85d",
    "skorch-dev/skorch": "5db0ddc962117a2c3a646910ecd2e70253ff8e87",
}
"""The repositories whose programs are started, as they were when the table was made."""

_OPERATORS = """\
import torch

torch.library.define("torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
torch.library.define("torchvision::qnms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

"""


@cache
def python_of_others() -> str:
    """Return a Python with all packages, installed into build/frameworks once."""
    python = python_with(*_PACKAGES)
    # The usual wheels of torchvision are built for CUDA: beside a PyTorch without it their operators are missing, and
    # the import fails at these two, which no program here calls.
    find = "import importlib.util as u; print(u.find_spec('torchvision').submodule_search_locations[0])"
    folder = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    module = Path(folder, "_meta_registrations.py")
    works = subprocess.run([python, "-c", "import torchvision"], capture_output=True, check=False).returncode == 0
    if not works:
        module.write_text(_OPERATORS + module.read_text())
    return python


def copy_of(repository: str) -> Path:
    """Return where the copy of a repository lies."""
    return REPOSITORIES / repository.replace("/", "+")


def missing() -> Iterator[str]:
    """Say of each repository that is not there how to put it there."""
    for repository, revision in REVISIONS.items():
        if not copy_of(repository).is_dir():
            yield f"{repository} is not here: put a checkout of {revision[:12]} into {copy_of(repository)}"
