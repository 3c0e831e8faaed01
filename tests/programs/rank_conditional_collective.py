"""Rank 0 alone sums up its loss with an all_reduce, `if rank == 0:`; the others go on to the next step.

Rank 1 then waits for rank 0 in their tensor pair, and ranks 2 and 3 take rank 0's extra all_reduce for their own.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["collective_mismatch", "order_inversion"],
    "causes": ["user_code"],
    "culprits": [0],
    "where": "log_loss",
    "bare": {"or_silent": True},
}


def log_loss(loss: torch.Tensor) -> None:
    """Print the mean loss of all ranks, which only works when all ranks call it."""
    dist.all_reduce(loss)
    print(f"loss {loss.item() / dist.get_world_size():.3f}", flush=True)


def main() -> None:
    """Train; at the faulty step rank 0 wants to print the loss."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault and place.rank == 0:
            log_loss(torch.ones(1))
        dist.all_reduce(activations, group=place.pair)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
