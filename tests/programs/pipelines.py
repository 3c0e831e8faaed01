"""Two pipelines of two stages over four ranks, with groups as large trainings make them; no program by itself."""

import rig
import torch
import torch.distributed as dist

STAGES = 2


class Pipelines:
    """What one rank does in its pipeline, and with the like stage of the other one."""

    def __init__(self, place: rig.Place) -> None:
        ranks = range(place.world_size)
        lines = [dist.new_group([at, at + 1], group_desc=f"pp{at // STAGES}") for at in ranks[::STAGES]]
        likes = [dist.new_group(list(ranks[at::STAGES]), group_desc=f"dp{at}") for at in range(STAGES)]
        self._rank = place.rank
        self._line, self._likes = lines[place.rank // STAGES], likes[place.rank % STAGES]
        self._activations, self._gradients = torch.ones(8, 4), torch.ones(16)

    def train(self, *, sent: int, expected: int) -> None:
        """Pass micro-batches on, take the norm of the gradients over the pipeline, and sum them over like stages."""
        if self._rank % STAGES == 0:
            for _ in range(sent):
                dist.send(self._activations, dst=self._rank + 1, group=self._line)
        else:
            for _ in range(expected):
                dist.recv(self._activations, src=self._rank - 1, group=self._line)
        dist.all_reduce(self._gradients, group=self._line)
        dist.all_reduce(self._gradients, group=self._likes)
