"""At the faulty step all others expect a broadcast from the faulty rank, which expects it from rank 0: nobody sends.

No recorder names the root of an operation.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["collective_mismatch"], "causes": ["user_code"], "bare": {"or_silent": True}}


def main() -> None:
    """Have the rank whose turn it is tell all others the samples of the step."""
    place = rig.start()
    samples = torch.ones(16)
    for at_fault in rig.steps(place):
        source = rig.FAULTY_RANK if at_fault and not place.is_faulty else 0
        dist.broadcast(samples, src=source)
        dist.barrier()


if __name__ == "__main__":
    main()
