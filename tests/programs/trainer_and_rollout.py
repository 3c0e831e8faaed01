"""Two jobs: a trainer's rank 0 waits for the samples of a rollout's rank 0, which waits for its own hung rank.

PART says which of the two this is, ROLLOUT what the rollout's ranks do, MEETING where the two find each other: without
it the rollout is alone.
"""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["rank_not_joined"],
    "causes": ["user_code"],
    "culprits": [1],
    "victims": "0,2-3",
    "where": "wait_for_weights",
    "busy": [0],
}
PATH = Path(os.environ.get("MEETING", ""))


def wait_for_weights() -> None:
    """Stand for what the rollout's code hangs in."""
    time.sleep(rig.NEVER)


def hung_rank() -> None:
    """Rank 1 of the rollout hangs, and its rank 0 waits for it in a collective."""
    if dist.get_rank() == 1:
        wait_for_weights()
    dist.all_reduce(torch.ones(1))


def hung_root() -> None:
    """Rank 0 hangs itself."""
    if dist.get_rank() == 0:
        wait_for_weights()
    dist.all_reduce(torch.ones(1))


def mutual() -> None:
    """Rank 0 waits for weights of the trainer, over the same connection."""
    if dist.get_rank() == 0:
        CONNECTION[0].recv(100)
    dist.all_reduce(torch.ones(1))


def works() -> None:
    """Rank 0 generates."""
    state = torch.ones(64, 64)
    while dist.get_rank() == 0:
        state = torch.softmax(state @ state, dim=1)
    dist.all_reduce(torch.ones(1))


WAYS: dict[str, Callable[[], None]] = {way.__name__: way for way in (hung_rank, hung_root, mutual, works)}
CONNECTION: list[socket.socket] = []


def roll_out() -> None:
    """Let the trainer connect, then hang."""
    if dist.get_rank() == 0 and "MEETING" in os.environ:
        with socket.create_server(("127.0.0.1", 0)) as server:
            PATH.with_suffix(".new").write_text(str(server.getsockname()[1]))
            PATH.with_suffix(".new").rename(PATH)
            CONNECTION.append(server.accept()[0])
    rig.say_ready(f"rank {dist.get_rank()}")
    WAYS[os.environ.get("ROLLOUT", "hung_rank")]()


def train() -> None:
    """Ask for samples; the others wait."""
    if dist.get_rank() == 0:
        while not PATH.exists():
            time.sleep(0.1)
        with socket.create_connection(("127.0.0.1", int(PATH.read_text()))) as rollout:
            rig.say_ready("rank 0")
            next_samples(rollout)
    else:
        rig.say_ready(f"rank {dist.get_rank()}")
    dist.all_reduce(torch.ones(1))


def next_samples(rollout: socket.socket) -> bytes:
    """Wait for samples."""
    return rollout.recv(100)


def main() -> None:
    """Be a rank of one of the two jobs."""
    rig.start()
    for _ in range(5):
        dist.all_reduce(torch.ones(1))
    (train if os.environ.get("PART") == "trainer" else roll_out)()


if __name__ == "__main__":
    main()
