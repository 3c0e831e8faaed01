"""A ring of batched sends and receives: the faulty rank believes that it is the last one, and leaves its send out.

Its neighbour waits for that in a work handle. Gloo's recorder has neither sends nor receives, but it counts them.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["p2p_unmatched"], "causes": ["user_code"], "bare": {"or_silent": True}}


def shift(block: torch.Tensor, place: rig.Place, is_last: bool) -> torch.Tensor:
    """Pass `block` one rank to the right."""
    received = torch.empty_like(block)
    operations = [dist.P2POp(dist.irecv, received, (place.rank - 1) % place.world_size)]
    if not is_last:
        operations.append(dist.P2POp(dist.isend, block, (place.rank + 1) % place.world_size))
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return received


def main() -> None:
    """Train; in every step shift a block around the ring."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        activations = shift(activations, place, is_last=at_fault and place.is_faulty)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
