"""A job has aborted its groups and made them again in the same processes; in its second life one rank goes astray."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "fetch_batch"}


def main() -> None:
    """Train a little, restart in process, train on."""
    rig.live_once()
    place = rig.restart()
    gradients = torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault and place.is_faulty:
            rig.fetch_batch()
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
