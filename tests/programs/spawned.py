"""A job that starts its own ranks: each child sets RANK after it has started, as Ray's and DeepSpeed's do.

The faulty rank sleeps in user code and never comes to the world's all_reduce.
"""

import os
import sys
import time

import rig
import torch.multiprocessing

TRUTH = {"launch": "spawn", "kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "wait_for_quota"}


def wait_for_quota() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(rig.NEVER)


def work(rank: int, world_size: int) -> None:
    """Be one rank: say which to the libraries that read it from the environment."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world_size))
    place = rig.start()
    rig.train(place, wait_for_quota)


def main() -> None:
    """Start as many ranks as the command line says."""
    world_size = int(sys.argv[1])
    torch.multiprocessing.spawn(work, args=(world_size,), nprocs=world_size)


if __name__ == "__main__":
    main()
