"""A rank is to be left out, and the others shrink the communicator; one of them does not take part."""

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["rank_not_joined", "startup_incomplete"],
    "causes": ["user_code", "rendezvous"],
    "where": "fetch_batch",
}


def main() -> None:
    """Train; at the faulty step the last rank is given up, and waits for the others to say that they go on."""
    place = rig.start(eager=True)
    gradients, given_up = torch.ones(16), place.world_size - 1
    for at_fault in rig.steps(place):
        dist.all_reduce(gradients)
        rig.end_step()
        if at_fault and place.rank == given_up:
            rig.meet_in_store(place, "goes on")
        elif at_fault:
            if place.is_faulty:
                rig.fetch_batch()
            dist.all_reduce(gradients, group=dist.shrink_group([given_up]))


if __name__ == "__main__":
    main()
