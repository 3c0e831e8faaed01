"""A healthy job whose devices compute for some seconds in each step, while every processor spins for them.

LAB_GRAPH: each step is the replay of a CUDA graph. What was captured is over for the recorder, which has no replays.
LAB_LOSS: rank 0 alone waits for each step, as for a loss that it prints; the others run ahead.
"""

import os

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell"]}

STEP_NS = int(os.environ.get("LAB_STEP_MS", "12000")) * 1_000_000


def main() -> None:
    """Train without end."""
    place = rig.start()
    gradients = torch.ones(16)

    def step() -> None:
        torch.cuda._sleep(STEP_NS)
        dist.all_reduce(gradients)

    run = rig.captured(step).replay if "LAB_GRAPH" in os.environ else step
    rig.say_ready(f"rank {place.rank}")
    for _ in range(1000):
        run()
        if "LAB_LOSS" not in os.environ or place.rank == 0:
            rig.end_step()


if __name__ == "__main__":
    main()
