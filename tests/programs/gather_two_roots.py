"""The faulty rank gathers the scores at itself, all others at rank 0.

Each of the two roots waits for the other's part; the rest send theirs to rank 0 and go on to the barrier.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["collective_mismatch"], "causes": ["user_code"], "bare": {"or_silent": True}}


def gather_scores(place: rig.Place, root: int) -> None:
    """Bring all scores to one rank."""
    scores = torch.ones(16)
    parts = [torch.empty_like(scores) for _ in range(place.world_size)] if place.rank == root else None
    dist.gather(scores, parts, dst=root)


def main() -> None:
    """Evaluate; at the faulty step one rank believes that it is the one who writes the report."""
    place = rig.start()
    activations = torch.ones(8, 4)
    for at_fault in rig.steps(place):
        dist.all_reduce(activations, group=place.pair)
        is_odd = at_fault and place.is_faulty
        gather_scores(place, place.rank if is_odd else 0)
        dist.barrier()


if __name__ == "__main__":
    main()
