"""The faulty rank meets the others in a barrier, while they reduce gradients in DDP's backward pass.

There is one process group, so whoever is elsewhere than the others has strayed: stacks alone can tell.
"""

import signal

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["collective_mismatch"],
    "causes": ["user_code"],
    "where": "end_epoch",
    "imports": ["torch._dynamo"],
}


def end_epoch() -> None:
    """Wait for all ranks."""
    dist.barrier()


def main() -> None:
    """Train; the faulty rank believes that its epoch is over."""
    signal.alarm(rig.LIFETIME_SECONDS)
    rank, world_size = rig.launched_as()
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
    for step in range(100):
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {rank}")
            if rank == rig.FAULTY_RANK:
                end_epoch()
        model(torch.ones(4, 16)).sum().backward()


if __name__ == "__main__":
    main()
