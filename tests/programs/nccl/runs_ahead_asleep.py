"""Processors run many steps ahead of their devices; one rank sleeps on the way, the others wait some steps later."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "fetch_batch"}

AHEAD = 20


def main() -> None:
    """Train with three buckets, and look at the loss only every twenty steps."""
    place = rig.start()
    buckets = [torch.ones(16 * (1 + number)) for number in range(3)]
    for at_fault in rig.steps(place):
        for step in range(AHEAD):
            if at_fault and place.is_faulty and step == 7:
                rig.fetch_batch()
            for bucket in buckets:
                dist.all_reduce(bucket, async_op=True)


if __name__ == "__main__":
    main()
