"""Ranks replay CUDA graphs, one for each size of a batch; one takes that of another size, and no device goes on."""

from functools import partial

import rig
import torch
import torch.distributed as dist

# A recorder has what was captured, and of replays nothing.
TRUTH = {
    "kinds": ["stuck_together", "collective_mismatch"],
    "causes": ["device_sync", "hardware", "network", "user_code", "unknown"],
    "or_silent": True,
}

SIZES = (16, 32)


def main() -> None:
    """Serve: a graph for each size of a batch."""
    place = rig.start()
    graphs = [rig.captured(partial(dist.all_reduce, torch.ones(size))) for size in SIZES]
    for at_fault in rig.steps(place):
        graphs[at_fault and place.is_faulty].replay()


if __name__ == "__main__":
    main()
