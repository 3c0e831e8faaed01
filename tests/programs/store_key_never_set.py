"""The faulty rank waits in the store for a key that nobody sets."""

from datetime import timedelta

import rig
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["rendezvous"], "where": "wait_for_recipe"}


def wait_for_recipe() -> None:
    """Wait for a word from rank 0, which does not know that it should give one."""
    store = dist.distributed_c10d._get_default_store()
    store.wait(["recipe/2"], timedelta(hours=1))


if __name__ == "__main__":
    rig.train(rig.start(), wait_for_recipe)
