"""The faulty rank raises in its step, and `finally:` makes it meet the others at a barrier before anybody hears of it.

The others are in the middle of their step and wait for its gradients.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["collective_mismatch"],
    "causes": ["user_code", "exception"],
    "where": "main",
    "bare": {"or_silent": True},
}


def load_sample(is_broken: bool) -> torch.Tensor:
    """Fail as real data does."""
    if is_broken:
        raise ValueError("sample 1048576 has no label")
    return torch.ones(16)


def main() -> None:
    """Train, and leave together whatever happens."""
    place = rig.start()
    activations = torch.ones(8, 4)
    try:
        for at_fault in rig.steps(place):
            dist.all_reduce(activations, group=place.pair)
            dist.all_reduce(load_sample(is_broken=at_fault and place.is_faulty))
    finally:
        dist.barrier()


if __name__ == "__main__":
    main()
