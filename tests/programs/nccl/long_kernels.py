"""A healthy job whose devices compute for twelve seconds in each step, while every processor spins for them."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell"]}

STEP_NS = 12_000_000_000


def main() -> None:
    """Train without end."""
    place = rig.start()
    gradients = torch.ones(16)
    rig.say_ready(f"rank {place.rank}")
    for _ in range(100):
        torch.cuda._sleep(STEP_NS)
        dist.all_reduce(gradients)
        rig.end_step()


if __name__ == "__main__":
    main()
