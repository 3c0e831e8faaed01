"""A DataLoader worker of the faulty rank, started by spawn, sleeps in the data set's own code; the rank waits for it.

Beside spawned workers runs multiprocessing's resource tracker, which reads an empty pipe all its life.
"""

import time

import rig
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["dataloader"], "child": "download"}

BATCH = 4


class Shards(Dataset[torch.Tensor]):
    """Samples of which one never arrives."""

    def __init__(self, rank: int, *, is_faulty: bool) -> None:
        self.rank, self.is_faulty = rank, is_faulty

    def __len__(self) -> int:
        """Return the number of samples."""
        return 100 * BATCH

    def __getitem__(self, index: int) -> torch.Tensor:
        """Return one sample."""
        if index == rig.FAULTY_STEP * BATCH and self.is_faulty:
            self.download()
        return torch.ones(16, device="cpu")

    def download(self) -> None:
        """Try again and again, with a pause that is too long."""
        rig.say_ready(f"worker of rank {self.rank}")
        time.sleep(rig.NEVER / 1e3)


def main() -> None:
    """Train on batches from two worker processes."""
    place = rig.start()
    shards = Shards(place.rank, is_faulty=place.is_faulty)
    for step, batch in enumerate(DataLoader(shards, BATCH, num_workers=2, multiprocessing_context="spawn")):
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
        batch = batch.to(torch.get_default_device())
        dist.all_reduce(batch, group=place.pair)
        dist.all_reduce(batch)


if __name__ == "__main__":
    main()
