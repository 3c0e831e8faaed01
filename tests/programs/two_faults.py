"""Two faults at once, in two tensor pairs that share nothing else: rank 1 sleeps, rank 3 is stopped.

Rank 0 waits for 1 and rank 2 for 3, each in its own pair.
"""

import os
import signal
import time

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["rank_not_joined", "rank_stopped"],
    "causes": ["user_code", "signal"],
    "culprits": [1, 3],
    "findings": 2,
}


def main() -> None:
    """Train the pairs alone; at the faulty step each loses its second rank."""
    place = rig.start()
    activations = torch.ones(8, 4)
    for at_fault in rig.steps(place):
        if at_fault:
            if place.rank == 1:
                time.sleep(rig.NEVER)
            if place.rank == 3:
                os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(activations, group=place.pair)


if __name__ == "__main__":
    main()
