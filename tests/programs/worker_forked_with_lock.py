"""A thread of the faulty rank holds a lock when the DataLoader forks its worker, which has the lock from then on.

The thread that would give it back is not in the worker.
"""

import threading

import rig
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["dataloader"], "child": "read_sample"}

LOCK = threading.Lock()


class Samples(Dataset[torch.Tensor]):
    """Samples that are read under a lock."""

    def __len__(self) -> int:
        """Return the number of samples."""
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        """Return one sample."""
        return self.read_sample()

    def read_sample(self) -> torch.Tensor:
        """Read under the lock, as from a file that threads share."""
        with LOCK:
            return torch.ones(16, device="cpu")


def main() -> None:
    """Train; at the faulty step begin a new epoch, with new workers."""
    place = rig.start()
    gradients = torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault and place.is_faulty:
            threading.Thread(target=LOCK.acquire).start()
        for batch in DataLoader(Samples(), batch_size=50, num_workers=1, multiprocessing_context="fork"):
            batch = batch.to(torch.get_default_device())
            dist.all_reduce(batch, group=place.pair)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
