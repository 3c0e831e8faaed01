"""A trainer's rank 0 waits for the samples of another job, whose rank 0 generates them; both jobs are well."""

import os
import socket
import time

import ranks
import torch
import torch.distributed as dist

LAUNCHES = ["two"]
JOBS = ["trainer", "rollout"]
HELD_BY = [0]
ADDRESS = ("127.0.0.1", 29577)


def generate(deadline: float) -> bytes:
    """Compute samples."""
    state = torch.ones(64, 64)
    while ranks.before(deadline):
        state = torch.softmax(state @ state, dim=1)
    return b"samples"


def roll_out(deadline: float) -> None:
    """Answer the trainer once the samples are there."""
    if dist.get_rank() == 0:
        with socket.create_server(ADDRESS) as server:
            trainer, _ = server.accept()
            trainer.sendall(generate(deadline))
    dist.barrier()


def train(deadline: float) -> None:
    """Ask for samples; the trainer's other ranks wait for rank 0."""
    if dist.get_rank() == 0:
        time.sleep(2.0)
        ranks.say_waiting()
        with socket.create_connection(ADDRESS) as rollout:
            assert rollout.recv(100) == b"samples"
    dist.barrier()


def main() -> None:
    """Be a rank of one of the two jobs."""
    dist.init_process_group("gloo")
    ranks.train()
    (train if os.environ["HEALTHY_JOB"] == "trainer" else roll_out)(time.monotonic() + ranks.SECONDS)
    ranks.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
