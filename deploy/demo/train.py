"""A small training job on Gloo, four ranks with tensor and data groups, in which one rank goes astray.

    torchrun --nproc-per-node 4 train.py --fault asleep --rank 2

Groups of four ranks: tensor 0-1, 2-3; data 0,2 and 1,3; and the world. With any even number of ranks it is the same.
"""

import argparse
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

FAULT_STEP = 5
STEP_SECONDS = 0.05
LEARNING_RATE = 1e-3
FOR_EVER = 3600.0
LIFETIME_SECONDS = 1800
"""Every rank ends itself after this time, should nobody end it."""


@dataclass(frozen=True)
class Place:
    """Where a rank stands, and whether and how it is the one that goes astray."""

    rank: int
    world_size: int
    tensor: dist.ProcessGroup
    data: dist.ProcessGroup
    fault: str
    astray: bool


class Samples(Dataset[torch.Tensor]):
    """Random samples; with the fault `dataloader`, one of them lies on storage that does not respond."""

    def __init__(self, place: Place, batch: int) -> None:
        self._blocked = FAULT_STEP * batch if place.fault == "dataloader" and place.astray else None

    def __len__(self) -> int:
        """Return more than anyone waits for."""
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        """Return one sample."""
        return read_from_dead_mount() if index == self._blocked else torch.randn(16)


def read_from_dead_mount() -> torch.Tensor:
    """Block like a read from storage that is gone."""
    reading, _writing = os.pipe()
    return torch.tensor(list(os.read(reading, 16)))


def refresh_cache() -> None:
    """Wait for something that never comes, outside of any collective."""
    time.sleep(FOR_EVER)


def asleep(place: Place) -> None:
    """One rank does something else first."""
    if place.astray:
        refresh_cache()


def wrong_op(place: Place) -> None:
    """One rank gathers the losses where all others reduce them."""
    loss = torch.ones(4)
    if place.astray:
        dist.all_gather([torch.empty(4) for _ in range(place.world_size)], loss)
    else:
        dist.all_reduce(loss)


def wrong_size(place: Place) -> None:
    """One rank reduces half as many values again as the others.

    Gloo aborts the process when a message is longer than expected. Buckets of 16 MiB and 24 MiB are cut into
    messages of 1 MiB each, of which some then never come.
    """
    dist.all_reduce(torch.ones((6 if place.astray else 4) * 2**20))


def recv_ring(place: Place) -> None:
    """All ranks receive from the left before they send to the right. Nobody is innocent, RANK does not matter."""
    block = torch.empty(8)
    dist.recv(block, src=(place.rank - 1) % place.world_size)
    dist.send(block, dst=(place.rank + 1) % place.world_size)


def crossed_groups(place: Place) -> None:
    """One rank takes two groups in the other order."""
    everyone = list(range(place.world_size))
    order = [dist.new_group(everyone, group_desc=name) for name in ("dense", "sparse")]
    for group in reversed(order) if place.astray else order:
        dist.all_reduce(torch.ones(16), group=group)


def stopped(place: Place) -> None:
    """One rank is stopped, as by a debugger or by Ctrl-Z."""
    if place.astray:
        os.kill(os.getpid(), signal.SIGSTOP)


def killed(place: Place) -> None:
    """One rank is killed while all others wait for its word in the store, as for a checkpoint."""
    if place.astray:
        os.kill(os.getpid(), signal.SIGKILL)
    store = dist.distributed_c10d._get_default_store()
    store.set(f"written/{place.rank}", "1")
    store.wait([f"written/{rank}" for rank in range(place.world_size)])


def nothing(place: Place) -> None:
    """Go on."""


FAULTS: dict[str, Callable[[Place], None]] = {
    "asleep": asleep,
    "wrong-op": wrong_op,
    "wrong-size": wrong_size,
    "recv-ring": recv_ring,
    "crossed-groups": crossed_groups,
    "stopped": stopped,
    "killed": killed,
    "dataloader": nothing,  # goes astray in Samples
    "slow": nothing,  # goes astray in train_step
    "healthy": nothing,
}


def join(fault: str, astray: int) -> Place:
    """Join the world and make this rank's tensor and data groups."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    tensor = [dist.new_group([first, first + 1], group_desc="tensor") for first in range(0, world_size, 2)]
    data = [dist.new_group(list(range(first, world_size, 2)), group_desc="data") for first in (0, 1)]
    return Place(rank, world_size, tensor[rank // 2], data[rank % 2], fault, rank == astray)


def train_step(model: torch.nn.Module, batch: torch.Tensor, place: Place) -> float:
    """Take one step: activations over the tensor group, gradients over the data group, the loss over the world.

    Plain gradient descent: an optimizer of `torch.optim` imports PyTorch's compiler, a second of each rank's start.
    """
    time.sleep(STEP_SECONDS * (20 if place.fault == "slow" and place.astray else 1))
    activations = model(batch)
    summed = activations.detach().clone()
    dist.all_reduce(summed, group=place.tensor)
    loss = (activations * summed).mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=place.data)
            parameter -= LEARNING_RATE * parameter.grad
    mean = loss.detach().reshape(1)
    dist.all_reduce(mean)
    return float(mean) / place.world_size


def train(place: Place) -> None:
    """Train without end, and go astray at FAULT_STEP."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16))
    workers = 1 if place.fault == "dataloader" else 0
    for step, batch in enumerate(DataLoader(Samples(place, batch=4), batch_size=4, num_workers=workers)):
        if step == FAULT_STEP:
            FAULTS[place.fault](place)
        loss = train_step(model, batch, place)
        if place.rank == 0 or step < FAULT_STEP:
            print(f"rank {place.rank} step {step} loss {loss:.4f}\n", end="", flush=True)  # one write, one line


def main() -> None:
    """Read what is to go wrong, and train."""
    parser = argparse.ArgumentParser(description="A small training job in which one rank goes astray.")
    parser.add_argument("--fault", choices=sorted(FAULTS), default="asleep", help="what goes wrong")
    parser.add_argument("--rank", type=int, default=2, help="where it goes wrong")
    arguments = parser.parse_args()
    signal.alarm(LIFETIME_SECONDS)
    torch.set_num_threads(1)
    train(join(arguments.fault, arguments.rank))


if __name__ == "__main__":
    main()
