"""Four stages of torch.distributed.pipelining on four ranks; one stage sleeps in its forward."""

import time

import rig
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

TRUTH = {
    "kinds": ["p2p_unmatched", "rank_not_joined"],
    "causes": ["user_code"],
    "where": "route_tokens",
}


def route_tokens() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(rig.NEVER)


class Stage(torch.nn.Module):
    """One layer; `asleep` makes it wait."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        self.asleep = False

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Compute, or wait."""
        if self.asleep:
            route_tokens()
        return self.layer(hidden)


def main() -> None:
    """Train; at the faulty step one stage gets stuck."""
    place = rig.start()
    device = torch.device(rig.DEVICE, place.rank) if rig.DEVICE == "cuda" else torch.device("cpu")
    model = Stage()
    shape = torch.ones(4, 16)  # told, for stages would send each other what the stand-in does not carry
    stage = PipelineStage(model, place.rank, place.world_size, device, input_args=shape, output_args=shape)
    schedule = ScheduleGPipe(stage, n_microbatches=2)
    batch = torch.ones(8, 16)
    for at_fault in rig.steps(place):
        model.asleep = at_fault and place.is_faulty
        with torch.no_grad():
            schedule.step(*([batch] if place.rank == 0 else []))
        dist.barrier()


if __name__ == "__main__":
    main()
