"""Every rank receives from its left neighbour before it sends to its right one: a ring in which all wait."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["p2p_deadlock"], "causes": ["user_code"], "culprits": [0, 1, 2, 3], "bare": {"or_silent": True}}


def shift(block: torch.Tensor, place: rig.Place) -> torch.Tensor:
    """Pass `block` one rank to the right, in the order that cannot work."""
    received = torch.empty_like(block)
    dist.recv(received, src=(place.rank - 1) % place.world_size)
    dist.send(block, dst=(place.rank + 1) % place.world_size)
    return received


if __name__ == "__main__":
    place = rig.start()
    rig.train(place, lambda: shift(torch.ones(8, 4), place), astray=True)
