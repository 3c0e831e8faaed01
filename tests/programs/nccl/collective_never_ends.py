"""A reduction that every device has begun never ends, as when the network between them is gone."""

import os

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["stuck_together"],
    "causes": ["hardware", "network", "device_sync", "unknown"],
    "culprits": [],
    "victims": "0-3",
}


def main() -> None:
    """Train; at the faulty step the stand-in for NCCL (deploy/lab) ends nothing any more."""
    place = rig.start()
    gradients = torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault:
            os.environ["LAB_STALLS"] = "1"
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
