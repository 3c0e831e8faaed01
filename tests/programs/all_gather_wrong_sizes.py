"""The faulty rank's last batch is empty, and all_gather wants tensors of one size from all.

Gloo has nothing to gather where the own tensor is empty: the faulty rank goes on, and the others wait for its part.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["collective_mismatch"], "causes": ["user_code"], "bare": {"or_silent": True}}

SAMPLES = 1 << 16


def gather_predictions(predictions: torch.Tensor, place: rig.Place) -> torch.Tensor:
    """Bring the predictions of all ranks together, as if all had equally many."""
    parts = [torch.empty_like(predictions) for _ in range(place.world_size)]
    dist.all_gather(parts, predictions)
    return torch.cat(parts)


def main() -> None:
    """Evaluate; at the faulty step one rank has no samples left."""
    place = rig.start()
    for at_fault in rig.steps(place):
        is_odd = at_fault and place.is_faulty
        gather_predictions(torch.ones(0 if is_odd else SAMPLES), place)
        dist.barrier()


if __name__ == "__main__":
    main()
