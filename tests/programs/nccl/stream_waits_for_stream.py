"""Gradients are reduced on a stream of their own, which the default one waits for; one rank never comes to it."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "fetch_batch"}


def main() -> None:
    """Train; read the loss in every step."""
    place = rig.start()
    side, gradients = torch.cuda.Stream(), torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault and place.is_faulty:
            rig.fetch_batch()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            dist.all_reduce(gradients)
        torch.cuda.current_stream().wait_stream(side)
        gradients.sum().item()


if __name__ == "__main__":
    main()
