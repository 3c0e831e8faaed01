"""`mp.spawn` starts ranks that import for long, rank 0 first to be done; it waits in the rendezvous."""

import os
import time

import ranks
import torch.distributed as dist
import torch.multiprocessing as mp

LAUNCHES = ["python"]
HELD_BY = [1, 2]


def import_framework() -> None:
    """Read a little, compute a little."""
    deadline = time.monotonic() + ranks.SECONDS
    while ranks.before(deadline):
        compile("\n".join(f"name{number} = {number}" for number in range(2000)), __file__, "exec")
        time.sleep(0.05)


def train(rank: int) -> None:
    """Be one rank."""
    if rank > 0:
        import_framework()
    else:
        ranks.say_waiting()
    dist.init_process_group("gloo", rank=rank, world_size=3)
    ranks.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    mp.spawn(train, nprocs=3)
