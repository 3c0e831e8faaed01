"""Nothing is wrong: every few steps rank 0 validates for ten seconds, and the others wait for it at a barrier."""

import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell", "slow"]}

VALIDATION_SECONDS = 10.0


def validate(model: torch.nn.Module) -> float:
    """Sum up the loss over a validation set."""
    loss, deadline = 0.0, time.monotonic() + VALIDATION_SECONDS
    with torch.no_grad():
        while time.monotonic() < deadline:
            loss += float(model(torch.ones(64, 256)).sum())
            time.sleep(0.01)
    return loss


def main() -> None:
    """Train without end."""
    place = rig.start()
    model = torch.nn.Linear(256, 16)
    gradients = torch.ones(16)
    for step in rig.endless_steps(place):
        dist.all_reduce(gradients)
        if step % rig.FAULTY_STEP == 0:
            if place.rank == 0:
                validate(model)
            dist.barrier()


if __name__ == "__main__":
    main()
