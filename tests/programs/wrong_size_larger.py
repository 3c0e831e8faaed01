"""The faulty rank reduces a larger tensor than the others.

Gloo cuts large tensors into segments of one MiB: the others get all they expect and go on to the next operation,
the faulty rank waits for segments that nobody sends. (With small tensors Gloo aborts the process instead.)
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["collective_mismatch"], "causes": ["user_code"], "bare": {"or_silent": True}}

FLOATS_PER_MEBIBYTE = 1 << 18


def main() -> None:
    """Train; at the faulty step one rank has twelve MiB of gradients, the others eight."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(8 * FLOATS_PER_MEBIBYTE)
    for step in range(100):
        dist.all_reduce(activations, group=place.pair)
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
            if place.is_faulty:
                gradients = torch.ones(12 * FLOATS_PER_MEBIBYTE)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
