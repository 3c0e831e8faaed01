"""One rank's own kernel never ends, so that its device never starts the reduction that the rank has issued like all."""

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["stuck_together", "rank_not_joined"],
    "causes": ["hardware", "device_sync", "unknown"],
    "or_silent": True,
}


def spin() -> None:
    """Launch a kernel that ends in a hundred years."""
    torch.cuda._sleep(1 << 62)


def main() -> None:
    """Train; at the faulty step one device is busy for ever."""
    place = rig.start()
    gradients = torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault and place.is_faulty:
            spin()
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
