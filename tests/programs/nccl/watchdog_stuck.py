"""One rank's driver does not come back from the query of an event, to the rank or to PyTorch's watchdog of it."""

import os

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["device_sync", "hardware", "user_code"], "where": "has_loaded"}


def has_loaded(event: torch.cuda.Event) -> bool:
    """Ask the device."""
    return event.query()


def main() -> None:
    """Train; at the faulty step the stand-in for CUDA (deploy/lab) blocks one rank."""
    place = rig.start()
    event, gradients = torch.cuda.Event(), torch.ones(16)
    for at_fault in rig.steps(place):
        event.record()
        if at_fault and place.is_faulty:
            os.environ["LAB_BLOCKS"] = "query"
        has_loaded(event)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
