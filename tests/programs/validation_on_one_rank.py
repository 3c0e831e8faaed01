"""Rank 0 alone validates, over a set that takes hours; the others wait for it in the next reduction.

Rank 0 moves all the time. Nothing else does.
"""

import time

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "or_silent": True,
    "verdict": ["hung", "slow"],
    "kinds": ["rank_not_joined", "straggler"],
    "causes": ["user_code"],
    "culprits": [0],
    "busy": [0],
}


def validate(model: torch.nn.Module) -> float:
    """Sum up the loss over a validation set without end."""
    loss = 0.0
    with torch.no_grad():
        while True:
            loss += float(model(torch.ones(4, 16)).sum())
            time.sleep(0.01)


def main() -> None:
    """Train; at the faulty step rank 0 validates."""
    place = rig.start()
    model = torch.nn.Linear(16, 1)
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault and place.rank == 0:
            validate(model)
        dist.all_reduce(activations, group=place.pair)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
