"""A healthy job that replays a CUDA graph in each step, in which its devices compute for some seconds."""

import os

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell"]}

STEP_NS = int(os.environ.get("LAB_STEP_MS", "6000")) * 1_000_000


def main() -> None:
    """Train without end; the recorder has what was captured, as never done, and of replays nothing."""
    place = rig.start()
    gradients = torch.ones(16)

    def step() -> None:
        torch.cuda._sleep(STEP_NS)
        dist.all_reduce(gradients)

    captured = rig.captured(step)
    rig.say_ready(f"rank {place.rank}")
    for _ in range(1000):
        captured.replay()
        rig.end_step()


if __name__ == "__main__":
    main()
