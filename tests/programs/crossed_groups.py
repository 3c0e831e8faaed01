"""Two groups over all ranks: the faulty rank reduces on the second first, all others on the first first."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["order_inversion"], "causes": ["user_code"], "bare": {"or_silent": True}}


def main() -> None:
    """Train with one group for dense and one for sparse gradients; at the faulty step one rank swaps them."""
    place = rig.start()
    ranks = list(range(place.world_size))
    dense, sparse = (rig.new_group(ranks, description) for description in ("dense", "sparse"))
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        dist.all_reduce(activations, group=place.pair)
        order = [dense, sparse]
        if at_fault and place.is_faulty:
            order.reverse()
        for group in order:
            dist.all_reduce(gradients, group=group)


if __name__ == "__main__":
    main()
