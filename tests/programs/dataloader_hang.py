"""The faulty rank's DataLoader worker blocks in a read that never returns; the rank waits for its batch.

The file is a pipe that nobody writes to: a read from it blocks like one from a dead mount, and needs no root.
"""

import os
import tempfile
from pathlib import Path

import rig
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["dataloader"], "child": "read_shard"}

BATCH = 4


class Shards(Dataset[torch.Tensor]):
    """Samples of which one lies in a file that cannot be read."""

    def __init__(self, place: rig.Place, directory: str) -> None:
        self.place = place
        self.dead = Path(directory, "shard-00003")
        os.mkfifo(self.dead)

    def __len__(self) -> int:
        """Return the number of samples."""
        return 100 * BATCH

    def __getitem__(self, index: int) -> torch.Tensor:
        """Return one sample."""
        if index == rig.FAULTY_STEP * BATCH and self.place.is_faulty:
            return self.read_shard()
        return torch.ones(16, device="cpu")

    def read_shard(self) -> torch.Tensor:
        """Block for ever: held open for writing by its own reader, the pipe has neither data nor an end."""
        with open(os.open(self.dead, os.O_RDWR), "rb") as shard:
            rig.say_ready(f"worker of rank {self.place.rank}")
            return torch.frombuffer(bytearray(shard.read(64)), dtype=torch.float32)


def main() -> None:
    """Train on batches from one worker process."""
    place = rig.start()
    with tempfile.TemporaryDirectory() as directory:
        loader = DataLoader(Shards(place, directory), batch_size=BATCH, num_workers=1, prefetch_factor=1)
        for step, batch in enumerate(loader):
            if step == rig.FAULTY_STEP:
                rig.say_ready(f"rank {place.rank}")
            batch = batch.to(torch.get_default_device())
            dist.all_reduce(batch, group=place.pair)
            dist.all_reduce(batch)


if __name__ == "__main__":
    main()
