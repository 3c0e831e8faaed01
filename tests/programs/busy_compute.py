"""Nothing is wrong: all ranks compute on their cores and meet now and then."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": "not_hung"}


def train_step() -> torch.Tensor:
    """Multiply for a few tens of milliseconds."""
    batch = torch.ones(256, 256)
    for _ in range(40):
        batch = (batch @ batch).clamp(max=1.0)
    return batch


def main() -> None:
    """Train without end."""
    place = rig.start()
    gradients = torch.ones(16)
    for _ in rig.endless_steps(place):
        train_step()
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
