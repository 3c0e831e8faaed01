"""One rank's driver does not come back from the launch of a kernel, before a reduction that the others wait in."""

import os

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["device_sync", "hardware", "user_code"], "where": "forward"}


def forward(activations: torch.Tensor) -> None:
    """Launch a kernel."""
    activations.mul_(2)


def main() -> None:
    """Train; at the faulty step the stand-in for CUDA (deploy/lab) blocks one rank."""
    place = rig.start()
    activations, gradients = torch.ones(8), torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault and place.is_faulty:
            os.environ["LAB_BLOCKS"] = "launch"
        forward(activations)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
