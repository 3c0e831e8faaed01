"""Fully sharded: the faulty rank skips a bad batch, and with it the gathering of the weights in forward.

It goes on to the end of the epoch and gathers losses there, while the others gather weights.
"""

import rig
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

TRUTH = {
    "kinds": ["collective_mismatch"],
    "causes": ["user_code"],
    "where": "meet_at_end",
    "imports": ["torch.distributed.fsdp", "torch._dynamo"],
    "bare": {"or_silent": True},
}


def main() -> None:
    """Train for one epoch, whose last batch is bad on one rank."""
    place = rig.start()
    model = torch.nn.Linear(16, 8)
    fully_shard(model, mesh=dist.init_device_mesh(rig.DEVICE, (place.world_size,)))
    rig.train_short_epoch(place, model)


if __name__ == "__main__":
    main()
