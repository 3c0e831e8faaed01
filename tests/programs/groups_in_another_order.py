"""Two groups that overlap in rank 1: the faulty rank makes them in the other order.

PyTorch numbers groups by the order in which they are made. A member of both waits for ever; the rest go on.
"""

import rig
import torch.distributed as dist

TRUTH = {
    "kinds": ["rank_not_joined"],
    "causes": ["user_code", "rendezvous"],
    "culprits": [],
}


def make_groups(place: rig.Place) -> None:
    """Make a group of rank 1 and the faulty one, and one of ranks 0 and 1."""
    both = [[1, rig.FAULTY_RANK], [0, 1]]
    for members in reversed(both) if place.is_faulty else both:
        dist.new_group(members)


if __name__ == "__main__":
    place = rig.start()
    rig.train(place, lambda: make_groups(place), astray=True)
