"""Every rank compiles an extension, and finds the lock of a compilation that was killed long ago."""

import os
import tempfile
from pathlib import Path

import rig
from torch.utils import cpp_extension

TRUTH = {
    "kinds": ["stuck_together"],
    "causes": ["compile"],
    "culprits": [],
    "victims": "0-3",
    "busy": [0, 1, 2, 3],
}


def load_kernels() -> None:
    """Build what the model needs, in a directory that all ranks share."""
    directory = Path(tempfile.gettempdir(), f"kernels-{os.environ['MASTER_PORT']}")
    directory.mkdir(exist_ok=True)
    Path(directory, "lock").touch()
    Path(directory, "kernels.cpp").write_text("int nothing;")
    cpp_extension.load("kernels", [f"{directory}/kernels.cpp"], build_directory=str(directory))


if __name__ == "__main__":
    rig.train_world(rig.start(), load_kernels)
