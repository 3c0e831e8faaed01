"""Nothing hangs, but two ranks, as if they shared a bad node, take ten times as long for each step."""

import time

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "verdict": ["slow", "not_hung"],
    "kinds": ["straggler"],
    "causes": ["user_code", "unknown"],
    "culprits": [2, 3],
    "or_silent": True,
}

STEP_SECONDS = 0.05
SLOWER = 10


def train_step(seconds: float) -> None:
    """Wait as for a device."""
    time.sleep(seconds)


def main() -> None:
    """Train without end."""
    place = rig.start()
    gradients = torch.ones(16)
    seconds = STEP_SECONDS * (SLOWER if place.rank in (2, 3) else 1)
    for _ in rig.endless_steps(place):
        train_step(seconds)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
