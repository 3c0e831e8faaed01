"""A kernel of each rank's own never ends, on all devices, before a reduction that all ranks have issued."""

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["stuck_together"],
    "causes": ["hardware", "device_sync", "unknown"],
    "culprits": [],
    "victims": "0-3",
}


def main() -> None:
    """Train; at the faulty step every device is busy for a hundred years."""
    place = rig.start()
    gradients = torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault:
            torch.cuda._sleep(1 << 62)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
