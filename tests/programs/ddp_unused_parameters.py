"""On the faulty rank's batch a branch of the model is not used, so its gradients are never ready.

DDP on that rank reduces nothing and goes on to gather the losses; the others wait in backward for its bucket.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["collective_mismatch"],
    "causes": ["user_code"],
    "bare": {"or_silent": True},
    "where": "gather_losses",
}


class Mixture(torch.nn.Module):
    """Two experts, of which a batch may use one or both."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.expert = torch.nn.Linear(16, 1), torch.nn.Linear(16, 1)

    def forward(self, batch: torch.Tensor, with_expert: bool) -> torch.Tensor:
        """Return one number per sample."""
        output: torch.Tensor = self.dense(batch)
        return output + self.expert(batch) if with_expert else output


def gather_losses(loss: torch.Tensor, place: rig.Place) -> list[torch.Tensor]:
    """Tell all ranks the loss of each."""
    losses = [torch.zeros(1) for _ in range(place.world_size)]
    dist.all_gather(losses, loss.detach().reshape(1))
    return losses


def main() -> None:
    """Train; at the faulty step one rank's batch needs no expert."""
    place = rig.start()
    model = torch.nn.parallel.DistributedDataParallel(Mixture())
    for at_fault in rig.steps(place):
        is_odd = at_fault and place.is_faulty
        loss = model(torch.ones(4, 16), not is_odd).sum()
        loss.backward()
        gather_losses(loss, place)


if __name__ == "__main__":
    main()
