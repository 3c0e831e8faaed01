"""A rank with a full flight recorder: more operations than PyTorch keeps, of several kinds, and then it sleeps."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

OPERATIONS = 2_200


def main() -> None:
    """Fill the recorder, then stand still."""
    dist.init_process_group("gloo")
    pairs = [dist.new_group([first, first + 1]) for first in range(0, dist.get_world_size(), 2)]
    gradients, activations = torch.ones(16), torch.ones(4, 8)
    for _ in range(OPERATIONS // 2):
        dist.all_reduce(gradients)
        dist.all_reduce(activations, group=pairs[dist.get_rank() // 2])
    (Path(os.environ["PULSE_DIRECTORY"]) / f"ready-{dist.get_rank()}").touch()
    time.sleep(3600)


if __name__ == "__main__":
    main()
