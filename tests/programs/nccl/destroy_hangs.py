"""All but one rank are done and take the groups down, while a reduction is in flight that the last one never joins."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "fetch_batch"}


def main() -> None:
    """Train, and end."""
    place = rig.start()
    gradients = torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault:
            break
        dist.all_reduce(gradients)
    if place.is_faulty:
        rig.fetch_batch()
    dist.all_reduce(gradients, async_op=True)
    dist.destroy_process_group()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
