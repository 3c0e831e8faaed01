"""The faulty rank reduces a smaller tensor than the others, gets all it expects, and runs ahead of them.

Gloo cuts large tensors into segments of one MiB, and the others wait for segments that nobody sends.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["collective_mismatch"], "causes": ["user_code"], "bare": {"or_silent": True}}

FLOATS_PER_MEBIBYTE = 1 << 18


def main() -> None:
    """Train; at the faulty step one rank has eight MiB of gradients, the others sixteen."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16 * FLOATS_PER_MEBIBYTE)
    for step in range(100):
        dist.all_reduce(activations, group=place.pair)
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
            if place.is_faulty:
                gradients = torch.ones(8 * FLOATS_PER_MEBIBYTE)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
