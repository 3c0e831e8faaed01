"""Gathers of a sharded model are coalesced into one call; one rank has left out the call."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["collective_mismatch", "order_inversion", "rank_not_joined"], "causes": ["user_code"]}


def main() -> None:
    """Train; at the faulty step one rank skips the gathers of its frozen layers, and reduces at once."""
    place = rig.start()
    shards = [torch.ones(8) for _ in range(3)]
    whole = [torch.ones(8 * place.world_size) for _ in range(3)]
    for at_fault in rig.steps(place):
        if not (at_fault and place.is_faulty):
            with dist._coalescing_manager(device=shards[0].device, async_ops=True) as handles:
                for one, shard in zip(whole, shards, strict=True):
                    dist.all_gather_into_tensor(one, shard)
            handles.wait()
        dist.reduce_scatter_tensor(shards[0], whole[0])


if __name__ == "__main__":
    main()
