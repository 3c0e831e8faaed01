"""The faulty rank should broadcast from its place and sleeps instead; the others wait to receive."""

import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "draw_batch"}


def draw_batch() -> torch.Tensor:
    """Take for ever to draw the batch that all wait for."""
    time.sleep(rig.NEVER)
    return torch.ones(16)


def main() -> None:
    """Train on batches that one rank hands out."""
    place = rig.start()
    activations, batch = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        dist.all_reduce(activations, group=place.pair)
        if at_fault and place.is_faulty:
            batch = draw_batch()
        dist.broadcast(batch, src=rig.FAULTY_RANK)


if __name__ == "__main__":
    main()
