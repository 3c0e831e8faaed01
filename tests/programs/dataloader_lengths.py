"""The faulty rank's DataLoader has fewer batches, as a sampler without padding gives; its model is wrapped in DDP.

It leaves the epoch first and gathers the losses, while the others wait in backward for its gradients.
"""

import rig
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

TRUTH = {
    "kinds": ["collective_mismatch"],
    "causes": ["user_code"],
    "where": "report_epoch",
    "bare": {"or_silent": True},
}

BATCH = 4


def report_epoch(loss: float, place: rig.Place) -> list[object]:
    """Gather the losses of all ranks."""
    losses: list[object] = [None] * place.world_size
    dist.all_gather_object(losses, loss)
    return losses


def main() -> None:
    """Train one epoch."""
    place = rig.start()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
    batches = rig.FAULTY_STEP + (0 if place.is_faulty else 2)
    loss = torch.zeros(1)
    for step, (batch,) in enumerate(DataLoader(TensorDataset(torch.ones(batches * BATCH, 16)), batch_size=BATCH)):
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
        loss = model(batch).sum()
        loss.backward()
    if place.is_faulty:
        rig.say_ready(f"rank {place.rank}")
    report_epoch(float(loss.detach()), place)


if __name__ == "__main__":
    main()
