"""Each rank replays a CUDA graph of its step, reduction included; one sleeps before the next replay."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "fetch_batch"}


def main() -> None:
    """Train: warm up, capture, replay."""
    place = rig.start()
    gradients = torch.ones(16)
    step = rig.captured(lambda: dist.all_reduce(gradients.mul_(0.5)))
    for at_fault in rig.steps(place):
        if at_fault and place.is_faulty:
            rig.fetch_batch()
        step.replay()


if __name__ == "__main__":
    main()
