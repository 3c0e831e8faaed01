"""A short job ends well, and a shell starts the next one: each look meets another moment of its life, the end too."""

import ranks
import torch.distributed as dist
from torch.utils.data import DataLoader

LAUNCHES = ["again"]
HELD_BY: list[int] = []


def main() -> None:
    """Train for some seconds, with a worker process that is sent SIGTERM in the end."""
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        ranks.say_waiting()
    batches = iter(DataLoader(list(range(10_000)), num_workers=1, persistent_workers=True))
    for _ in range(250):
        next(batches)
        ranks.train(1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
