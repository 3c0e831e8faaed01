"""Ranks have several communicators, each made at its first use; one rank sleeps before the first use of the second."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined", "startup_incomplete"], "causes": ["user_code"], "where": "fetch_batch"}


def main() -> None:
    """Train; at the faulty step experts are used for the first time."""
    place = rig.start()
    experts = [dist.new_group([first, first + 2], group_desc=f"ep{first}") for first in range(2)]
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        dist.all_reduce(activations, group=place.pair)
        rig.end_step()
        if at_fault:
            if place.is_faulty:
                rig.fetch_batch()
            dist.all_reduce(activations, group=experts[place.rank % 2])
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
