"""Rank 0 alone saves a checkpoint, to a file system that takes no more data; the others wait at the barrier after it.

The file is a pipe that nobody reads from: a write to it blocks like one to a dead mount, and needs no root.
"""

import os
import tempfile
from pathlib import Path

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["rank_not_joined"],
    "causes": ["checkpoint", "filesystem"],
    "culprits": [0],
    "where": "save_checkpoint",
}


def save_checkpoint(model: torch.nn.Module, path: Path) -> None:
    """Write the model's weights, which are larger than a pipe holds."""
    with open(os.open(path, os.O_RDWR), "wb") as file:
        torch.save(model.state_dict(), file, _use_new_zipfile_serialization=False)


def main() -> None:
    """Train; at the faulty step rank 0 saves, and all meet after that."""
    place = rig.start()
    model = torch.nn.Linear(512, 512)
    activations = torch.ones(8, 4)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.pt")
        os.mkfifo(path)
        for at_fault in rig.steps(place):
            dist.all_reduce(activations, group=place.pair)
            if at_fault and place.rank == 0:
                save_checkpoint(model, path)
            dist.barrier()


if __name__ == "__main__":
    main()
