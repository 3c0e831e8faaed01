"""All ranks must make every new group, also those that they are not in. The faulty rank goes past it to the next step.

The others wait for it in the store.
"""

import rig
import torch.distributed as dist

TRUTH = {
    "kinds": ["rank_not_joined"],
    "causes": ["user_code", "rendezvous", "communication"],
    "bare": {"or_silent": True},
}


def make_logging_group(place: rig.Place) -> None:
    """Make a group of all ranks."""
    dist.new_group(list(range(place.world_size)), group_desc="logging")


if __name__ == "__main__":
    place = rig.start()
    rig.train(place, lambda: make_logging_group(place), astray=not place.is_faulty)
