"""Tensor parallel in pairs, data parallel across them: one rank takes another branch and leaves out a layer."""

import rig
import torch
import torch.distributed as dist
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

TRUTH = {
    "kinds": ["collective_mismatch", "order_inversion", "rank_not_joined"],
    "causes": ["user_code"],
    "imports": ["torch.distributed.tensor.parallel", "torch._dynamo"],
    "bare": {"or_silent": True},
}


class Block(torch.nn.Module):
    """Two layers that are split."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Go through both."""
        return self.down(self.up(hidden))


def main() -> None:
    """Train; at the faulty step one rank has another opinion of its batch."""
    place = rig.start()
    mesh = dist.init_device_mesh(rig.DEVICE, (place.world_size // 2, 2), mesh_dim_names=("dp", "tp"))
    blocks = [Block() for _ in range(2)]
    for block in blocks:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    gradients, batch = torch.ones(16), torch.ones(4, 16)
    for at_fault in rig.steps(place):
        hidden = batch
        for block in blocks[: 1 if at_fault and place.is_faulty else 2]:
            hidden = block(hidden)
        gradients.add_(hidden.sum().detach())
        dist.all_reduce(gradients, group=mesh["dp"].get_group())
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
