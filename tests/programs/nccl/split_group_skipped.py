"""A communicator is split from the world's by all ranks together; one does not take part."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code", "rendezvous"], "where": "fetch_batch"}


def main() -> None:
    """Train; at the faulty step split the world into halves."""
    place = rig.start()
    dist.distributed_c10d._get_default_group().bound_device_id = torch.device("cuda", place.rank)
    gradients, half = torch.ones(16), place.world_size // 2
    for at_fault in rig.steps(place):
        dist.all_reduce(gradients)
        rig.end_step()
        if at_fault:
            if place.is_faulty:
                rig.fetch_batch()
            dist.split_group(split_ranks=[list(range(half)), list(range(half, place.world_size))])


if __name__ == "__main__":
    main()
