"""Uneven inputs under `Join`, which stands in for DDP's reductions alone: the loop gathers its losses, too.

The faulty rank has fewer batches and shadows reductions; the others wait in a gathering that nobody shadows.
"""

import rig
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join

TRUTH = {"kinds": ["collective_mismatch"], "causes": ["user_code"], "bare": {"or_silent": True}}


def gather_losses(loss: torch.Tensor, place: rig.Place) -> None:
    """Tell all ranks the loss of each: not one of the reductions that `Join` knows of."""
    losses = [torch.zeros(1) for _ in range(place.world_size)]
    dist.all_gather(losses, loss.detach().reshape(1))


def main() -> None:
    """Train one epoch with `Join`."""
    place = rig.start()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
    batches = rig.FAULTY_STEP + (0 if place.is_faulty else 2)
    with Join([model]):
        for step in range(batches):
            loss = model(torch.ones(4, 16)).sum()
            loss.backward()
            if step == rig.FAULTY_STEP or (place.is_faulty and step == batches - 1):
                rig.say_ready(f"rank {place.rank}")
            gather_losses(loss, place)


if __name__ == "__main__":
    main()
