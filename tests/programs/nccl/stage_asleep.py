"""A pipeline of torch.distributed.pipelining: its stages tell each other their shapes, and one sleeps in forward."""

import rig
import torch
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

TRUTH = {"kinds": ["rank_not_joined", "p2p_unmatched"], "causes": ["user_code"], "where": "fetch_batch"}


class Stage(torch.nn.Module):
    """A layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        self.sleeps = False

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Go through it."""
        if self.sleeps:
            rig.fetch_batch()
        return self.layer(hidden)


def main() -> None:
    """Train; at the faulty step one stage does not go on."""
    place = rig.start()
    module, device = Stage(), torch.device("cuda", place.rank)
    schedule = ScheduleGPipe(PipelineStage(module, place.rank, place.world_size, device), n_microbatches=2)
    for at_fault in rig.steps(place):
        module.sleeps = at_fault and place.is_faulty
        schedule.step(*([torch.ones(4, 16)] if place.rank == 0 else []))


if __name__ == "__main__":
    main()
