"""Nothing hangs, but the faulty rank reads its batches from a slow disk, and all others wait for it each time."""

import time

import rig
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

TRUTH = {"verdict": "slow", "kinds": ["straggler"], "causes": ["dataloader", "user_code", "unknown"]}

SLOW_SECONDS, USUAL_SECONDS = 0.4, 0.02
ENDLESS = 1_000_000


class Shards(Dataset[torch.Tensor]):
    """Samples that take their time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        """Return the number of samples."""
        return ENDLESS

    def __getitem__(self, index: int) -> torch.Tensor:
        """Read one sample from the disk."""
        time.sleep(self.seconds)
        return torch.ones(16)


def main() -> None:
    """Train without end."""
    place = rig.start()
    loader = DataLoader(Shards(SLOW_SECONDS if place.is_faulty else USUAL_SECONDS), batch_size=1)
    for step, batch in enumerate(loader):
        dist.all_reduce(batch)
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")


if __name__ == "__main__":
    main()
