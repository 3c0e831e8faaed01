"""The faulty rank skips a bad batch with `continue`, and with it the reduction in DDP's backward.

It is one step ahead from then on, and the last one of the epoch finds it at the epoch's end, gathering.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["collective_mismatch"],
    "causes": ["user_code"],
    "bare": {"or_silent": True},
    "where": "gather_losses",
    "imports": ["torch._dynamo"],
}

STEPS = 6


def gather_losses(loss: float, place: rig.Place) -> list[torch.Tensor]:
    """Tell all ranks the mean loss of each."""
    losses = [torch.zeros(1) for _ in range(place.world_size)]
    dist.all_gather(losses, torch.tensor([loss]))
    return losses


def main() -> None:
    """Train for one epoch with a bad batch in it."""
    place = rig.start()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
    total = 0.0
    for step in range(STEPS):
        bad = step == rig.FAULTY_STEP and place.is_faulty
        batch = torch.full((4, 16), torch.nan if bad else 1.0, device="cpu")
        if step == STEPS - 1:
            rig.say_ready(f"rank {place.rank}")
        if batch.isnan().any():
            continue
        loss = model(batch.to(rig.DEVICE)).sum()
        loss.backward()
        total += float(loss.detach())
    gather_losses(total, place)
    rig.end_step()


if __name__ == "__main__":
    main()
