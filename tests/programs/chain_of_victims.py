"""The faulty rank sleeps before its pair's reduction: its partner waits there for it, the others for both of them."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "fetch_batch"}


def main() -> None:
    """Train; at the faulty step one rank waits before it joins its partner."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault and place.is_faulty:
            rig.fetch_batch()
        dist.all_reduce(activations, group=place.pair)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
