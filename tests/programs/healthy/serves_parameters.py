"""Trainers call a parameter server for every step, which takes its time; the server waits in shutdown for them."""

import os
import threading
import time

import ranks
import torch
import torch.distributed.rpc as rpc

HELD_BY = [0, 1, 2]
WEIGHTS, LOCK = torch.zeros(1000), threading.Lock()


def update(gradients: torch.Tensor) -> torch.Tensor:
    """Add to the weights, one caller after another."""
    with LOCK:
        time.sleep(1.5)
        return WEIGHTS.add_(gradients)


def main() -> None:
    """Be the server, or train against it."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        ranks.say_waiting()
    deadline = time.monotonic() + ranks.SECONDS
    while rank > 0 and ranks.before(deadline):
        rpc.rpc_sync("worker0", update, (torch.ones(1000),))
        time.sleep(0.2)
    rpc.shutdown()


if __name__ == "__main__":
    main()
