"""The faulty rank has fewer batches, leaves its loop first and goes on to the end of the epoch, alone.

There it gathers everybody's count of samples, while the others still reduce gradients.
"""

import rig
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

TRUTH = {
    "kinds": ["collective_mismatch"],
    "causes": ["user_code"],
    "where": "gather_counts",
    "bare": {"or_silent": True},
}

BATCH = 4


def gather_counts(samples: int) -> list[int]:
    """Tell all ranks how many samples each of them has seen in this epoch."""
    counts = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor([samples]))
    return [int(count) for count in counts]


def main() -> None:
    """Train for one epoch over a data set whose shards are not equally long."""
    place = rig.start()
    batches = rig.FAULTY_STEP if place.is_faulty else rig.FAULTY_STEP + 2
    loader = DataLoader(TensorDataset(torch.ones(batches * BATCH, 16)), batch_size=BATCH)
    samples = 0
    for step, (batch,) in enumerate(loader):
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
        dist.all_reduce(batch, group=place.pair)
        dist.all_reduce(batch)
        samples += len(batch)
    if place.is_faulty:
        rig.say_ready(f"rank {place.rank}")
    gather_counts(samples)


if __name__ == "__main__":
    main()
