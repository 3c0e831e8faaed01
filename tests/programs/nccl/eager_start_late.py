"""Communicators are made as the groups are (device_id), and one rank sleeps before: the others poll in NCCL's start."""

import os
import signal

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["rank_not_joined", "startup_incomplete"],
    "causes": ["user_code", "checkpoint"],
    "where": "fetch_batch",
}


def main() -> None:
    """Meet in a store, load, and join the world."""
    signal.alarm(rig.LIFETIME_SECONDS)
    rank, size = rig.launched_as()
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(*address, size, rank == 0)
    rig.say_ready(f"rank {rank}")
    if rank == rig.FAULTY_RANK:
        rig.fetch_batch()
    dist.init_process_group("nccl", store=store, rank=rank, world_size=size, device_id=device)
    dist.all_reduce(torch.ones(16, device=device))
    rig.end_step()


if __name__ == "__main__":
    main()
