"""The faulty rank takes another branch and gathers, where all others reduce."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["collective_mismatch"], "causes": ["user_code"], "bare": {"or_silent": True}}


def main() -> None:
    """Train; at the faulty step one rank gathers its gradients instead of reducing them."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        dist.all_reduce(activations, group=place.pair)
        if at_fault and place.is_faulty:
            dist.all_gather([torch.empty_like(gradients) for _ in range(place.world_size)], gradients)
        else:
            dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
