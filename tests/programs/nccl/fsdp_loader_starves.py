"""Fully sharded; the loader of one rank gets nothing more from its source, while the others gather weights."""

import queue

import rig
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, IterableDataset

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["dataloader", "user_code"], "where": "Stream.__iter__"}


class Stream(IterableDataset):
    """Samples that come from elsewhere, three batches of them on the faulty rank."""

    def __init__(self, size: int | None) -> None:
        self._size = size

    def __iter__(self):
        source = queue.Queue()
        number = 0
        while self._size is None or number < self._size:
            number += 1
            yield torch.ones(16)
        yield source.get()


def main() -> None:
    """Train; at the faulty step one rank's stream is dry."""
    place = rig.start()
    model = torch.nn.Linear(16, 8)
    fully_shard(model, mesh=dist.init_device_mesh(rig.DEVICE, (place.world_size,)))
    generator = torch.Generator(device=rig.DEVICE)
    size = 4 * rig.FAULTY_STEP if place.is_faulty else None
    batches = iter(DataLoader(Stream(size), batch_size=4, generator=generator))
    for _ in rig.steps(place):
        model(next(batches)).sum().backward()


if __name__ == "__main__":
    main()
