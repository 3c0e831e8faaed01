"""The world was made with its devices, so that new_group() splits its communicator; one rank does not take part."""

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["rank_not_joined", "startup_incomplete"],
    "causes": ["user_code", "rendezvous"],
    "where": "fetch_batch",
}


def main() -> None:
    """Train; at the faulty step a group of all is made for the norm."""
    place = rig.start(eager=True)
    gradients = torch.ones(16)
    for at_fault in rig.steps(place):
        dist.all_reduce(gradients)
        rig.end_step()
        if at_fault:
            if place.is_faulty:
                rig.fetch_batch()
            norm = dist.new_group(list(range(place.world_size)))
            dist.all_reduce(gradients, group=norm)


if __name__ == "__main__":
    main()
