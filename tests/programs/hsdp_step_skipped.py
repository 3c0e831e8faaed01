"""Sharded in pairs and replicated across them: the faulty rank skips a bad batch and goes on to the end of the epoch.

Its shard partner waits for its weights, its replica for its gradients, and the fourth for these two.
"""

import rig
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

TRUTH = {
    "kinds": ["order_inversion", "collective_mismatch", "rank_not_joined"],
    "causes": ["user_code"],
    "where": "meet_at_end",
    "bare": {"or_silent": True},
}


def main() -> None:
    """Train for one epoch, whose last batch is bad on one rank."""
    place = rig.start()
    model = torch.nn.Linear(16, 8)
    mesh = dist.init_device_mesh(rig.DEVICE, (2, place.world_size // 2), mesh_dim_names=("replicate", "shard"))
    fully_shard(model, mesh=mesh)
    rig.train_short_epoch(place, model)


if __name__ == "__main__":
    main()
