"""All ranks wait in the store for a word that a scheduler outside the job should give: no rank is the odd one."""

from datetime import timedelta

import rig
import torch.distributed as dist

TRUTH = {"kinds": ["stuck_together"], "causes": ["unknown", "rendezvous"], "culprits": [], "or_silent": True}


def wait_for_permission() -> None:
    """Wait for a key that nobody sets."""
    store = dist.distributed_c10d._get_default_store()
    store.wait(["permission"], timedelta(hours=1))


if __name__ == "__main__":
    rig.train_world(rig.start(), wait_for_permission)
