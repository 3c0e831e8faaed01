"""Rank 0 alone calls a barrier, before it would write a checkpoint; the others go on to the next step."""

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["collective_mismatch"],
    "causes": ["user_code"],
    "culprits": [0],
    "where": "save_checkpoint",
    "bare": {"or_silent": True},
}


def save_checkpoint() -> None:
    """Wait for all ranks, then write; only rank 0 comes here."""
    dist.barrier()


def main() -> None:
    """Train; at the faulty step rank 0 wants to save."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault and place.rank == 0:
            save_checkpoint()
        dist.all_reduce(activations, group=place.pair)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
