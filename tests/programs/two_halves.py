"""Two halves of the job disagree: ranks 0 and 1 reduce, ranks 2 and 3 gather. No majority, so nobody is to blame."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["collective_mismatch", "stuck_together"], "causes": ["user_code", "unknown"], "culprits": []}


def main() -> None:
    """Train; at the faulty step each half takes its own branch."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        dist.all_reduce(activations, group=place.pair)
        if at_fault and place.rank >= place.world_size // 2:
            dist.all_gather([torch.empty_like(gradients) for _ in range(place.world_size)], gradients)
        else:
            dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
