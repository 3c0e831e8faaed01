"""Rank 0 alone makes a new group of ranks 0 and 1, `if rank == 0:`, which both of them must call.

It waits in the store for rank 1's address; the others wait for it in the next reduction.
"""

import rig
import torch.distributed as dist

TRUTH = {
    "kinds": ["rank_not_joined"],
    "causes": ["rendezvous", "user_code"],
    "culprits": [0],
    "where": "make_logging_group",
}


def make_logging_group() -> None:
    """Make a group with rank 1, which does not know of it."""
    dist.new_group([0, 1], group_desc="logging")


if __name__ == "__main__":
    place = rig.start()
    rig.train(place, make_logging_group, astray=place.rank == 0)
