"""Remote calls alone, as PyTorch's example of a parameter server: rank 0 drives, and the others train in its calls."""

import os

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from quota import reach_last_step

SECONDS = 36_000


def train(steps: int) -> int:
    """Run on a trainer, by a thread that serves calls."""
    for step in range(steps):
        if step == steps - 1:
            reach_last_step(dist.get_rank())
    return steps


def main() -> None:
    """Meet, call, and wait for what was called."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=SECONDS)
    rpc.init_rpc(f"rank{rank}", rank=rank, world_size=size, rpc_backend_options=options)
    if rank == 0:
        called = [rpc.rpc_async(f"rank{other}", train, args=(3,)) for other in range(1, size)]
        reach_last_step(rank)
        torch.futures.wait_all(called)
    rpc.shutdown(timeout=SECONDS)


if __name__ == "__main__":
    main()
