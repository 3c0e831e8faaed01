"""Nothing is wrong: a step takes about 50 ms on every rank, or as long as the test says, for ever."""

import os
import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": "not_hung"}

STEP_SECONDS = float(os.environ.get("UNHANG_TEST_STEP_SECONDS", "0.05"))


def train_step(activations: torch.Tensor) -> torch.Tensor:
    """Compute a little, and wait as for a device."""
    time.sleep(STEP_SECONDS)
    return activations @ activations.T


def main() -> None:
    """Train without end."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for _ in rig.endless_steps(place):
        train_step(activations)
        dist.all_reduce(activations, group=place.pair)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
