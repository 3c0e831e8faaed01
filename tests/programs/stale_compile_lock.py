"""The faulty rank compiles an extension, and finds the lock of a compilation that was killed long ago."""

import tempfile
from pathlib import Path

import rig
from torch.utils import cpp_extension

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["compile"], "busy": [2], "where": "load_kernels"}


def load_kernels() -> None:
    """Build what the model needs, in a directory that is kept from run to run."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "lock").touch()
        Path(directory, "kernels.cpp").write_text("int nothing;")
        cpp_extension.load("kernels", [f"{directory}/kernels.cpp"], build_directory=directory)


if __name__ == "__main__":
    rig.train(rig.start(), load_kernels)
