"""The faulty rank believes that training is over and leaves with status 0; the others wait in the store for its word.

No launcher is there to end them.
"""

import sys
from datetime import timedelta

import rig
import torch
import torch.distributed as dist

TRUTH = {"launch": "direct", "kinds": ["rank_exited", "rank_missing"], "causes": ["user_code", "teardown", "unknown"]}


def wait_for_all(place: rig.Place) -> None:
    """Meet all ranks in the store, as torch's own rendezvous helpers do."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"epoch/{place.rank}", "1")
    store.wait([f"epoch/{rank}" for rank in range(place.world_size)], timedelta(hours=1))


def main() -> None:
    """Train; at the faulty step one rank thinks that it was the last."""
    place = rig.start()
    gradients = torch.ones(16)
    for step in range(100):
        dist.all_reduce(gradients)
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
            if place.is_faulty:
                sys.exit(0)
            wait_for_all(place)


if __name__ == "__main__":
    main()
