"""Nothing hangs, but the faulty rank takes ten times as long for each step, and all others wait for it each time."""

import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": "slow", "kinds": ["straggler"], "causes": ["user_code", "unknown"]}

STEP_SECONDS = 0.05
SLOWER = 10


def train_step(activations: torch.Tensor, seconds: float) -> torch.Tensor:
    """Compute a little, and wait as for a device."""
    time.sleep(seconds)
    return activations @ activations.T


def main() -> None:
    """Train without end."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    seconds = STEP_SECONDS * (SLOWER if place.is_faulty else 1)
    for _ in rig.endless_steps(place):
        train_step(activations, seconds)
        dist.all_reduce(activations, group=place.pair)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
