"""A pipeline: the faulty stage drops its micro-batch and goes on to the gradients, the next stage waits to receive.

Its fault is a send that does not exist, and Gloo's recorder has neither sends nor receives: from the records alone
the receiver looks like the one who did not come. But Gloo counts them, and the faulty stage has made one fewer.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["p2p_unmatched"], "causes": ["user_code"], "bare": {"or_silent": True}}


def run_stage(place: rig.Place, drops: bool) -> None:
    """Receive from the stage before, compute, send to the stage after."""
    activations = torch.ones(8, 4)
    if place.rank > 0:
        dist.recv(activations, src=place.rank - 1)
    if place.rank < place.world_size - 1 and not drops:
        dist.send(activations * 2, dst=place.rank + 1)


def main() -> None:
    """Train four stages; at the faulty step one of them does not pass its micro-batch on."""
    place = rig.start()
    gradients = torch.ones(16)
    for at_fault in rig.steps(place):
        run_stage(place, drops=at_fault and place.is_faulty)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
