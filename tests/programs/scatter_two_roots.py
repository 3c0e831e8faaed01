"""The faulty rank believes that it is the source of a scatter, all others that rank 0 is.

Both roots send to everybody and are done with that; each then waits for the part that the other sent under its name.
The recorder names no root, but only a root has inputs: it shows two of them, of which one was the root before.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["collective_mismatch"], "causes": ["user_code"], "bare": {"or_silent": True}}


def main() -> None:
    """Scatter one batch per step from rank 0; at the faulty step one rank scatters its own."""
    place = rig.start()
    activations, part = torch.ones(8, 4), torch.empty(16)
    for at_fault in rig.steps(place):
        dist.all_reduce(activations, group=place.pair)
        source = 0
        if at_fault and place.is_faulty:
            source = place.rank
        batch = [torch.ones(16) for _ in range(place.world_size)] if place.rank == source else None
        dist.scatter(part, batch, src=source)
        dist.barrier()


if __name__ == "__main__":
    main()
