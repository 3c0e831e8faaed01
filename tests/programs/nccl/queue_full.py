"""One rank sleeps; the others launch kernels without ever waiting, until the queue of their device is full."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "fetch_batch"}

KERNELS = 100
STEPS = 100


def update(weights: torch.Tensor) -> None:
    """Stand for an optimizer of many small kernels."""
    for _ in range(KERNELS):
        weights.mul_(0.5)


def main() -> None:
    """Train; at the faulty step one rank gets no batch, while the others go on as far as CUDA lets them."""
    place = rig.start()
    gradients, weights = torch.ones(16), torch.ones(64)
    for at_fault in rig.steps(place):
        if at_fault and place.is_faulty:
            rig.fetch_batch()
        for _ in range(STEPS if at_fault else 1):
            dist.all_reduce(gradients, async_op=True).wait()
            update(weights)


if __name__ == "__main__":
    main()
