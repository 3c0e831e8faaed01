"""Ranks shift a block around a ring in batches of sends and receives; one leaves out one receive."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["p2p_unmatched"], "causes": ["user_code"], "bare": {"or_silent": True}}

PARTS = 5


def shift(parts: list[torch.Tensor], place: rig.Place, *, leaves_out: bool) -> None:
    """Pass the parts of a block one rank to the right, all in one batch."""
    left, right = (place.rank - 1) % place.world_size, (place.rank + 1) % place.world_size
    operations = []
    for number, part in enumerate(parts):
        operations.append(dist.P2POp(dist.isend, part, right))
        if not (leaves_out and number == PARTS - 1):
            operations.append(dist.P2POp(dist.irecv, torch.empty_like(part), left))
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def main() -> None:
    """Train; in every step shift a block."""
    place = rig.start()
    parts, gradients = [torch.ones(8, 4) for _ in range(PARTS)], torch.ones(16)
    for at_fault in rig.steps(place):
        shift(parts, place, leaves_out=at_fault and place.is_faulty)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
