"""The faulty rank skips the barrier of its tensor pair and goes on to the world's reduction with everybody else.

Its partner waits at the barrier, alone: by the stacks the odd one is the victim.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["rank_not_joined", "order_inversion"],
    "causes": ["user_code", "communication"],
    "bare": {"or_silent": True},
}


def main() -> None:
    """Train; at the faulty step one rank does not meet its partner."""
    place = rig.start()
    gradients = torch.ones(16)
    for at_fault in rig.steps(place):
        is_odd = at_fault and place.is_faulty
        if not is_odd:
            dist.barrier(group=place.pair)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
