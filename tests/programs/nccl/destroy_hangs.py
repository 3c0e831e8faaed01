"""All but one rank are done and take the groups down, while a reduction is in flight that the last one never joins."""

import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "save_model"}


def save_model() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(rig.NEVER)


def main() -> None:
    """Train, and end."""
    place = rig.start()
    gradients = torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault:
            break
        dist.all_reduce(gradients)
    if place.is_faulty:
        save_model()
    dist.all_reduce(gradients, async_op=True)
    dist.destroy_process_group()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
