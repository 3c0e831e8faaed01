"""A hook of the backward pass sleeps on the faulty rank, in a thread of autograd's own; the main thread waits for it.

The CPU's backward pass runs in the thread that asks for it, until passes within passes are as deep as autograd lets
them be: it then goes on in a thread of its pool, as it does for each GPU.
"""

import time
from typing import Any

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "clip_gradients"}

DEEPEST = 61
"""Passes within each other, one more than autograd's MAX_DEPTH."""


class Checkpointed(torch.autograd.Function):
    """A layer whose backward pass runs another one, as activation checkpointing does."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, depth: int, hook: Any) -> torch.Tensor:
        """Keep what the backward pass needs."""
        ctx.depth, ctx.hook = depth, hook
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Go one pass deeper, or call the hook where it is deep enough."""
        if ctx.depth == 0:
            ctx.hook(gradients[0])
        else:
            with torch.enable_grad():
                inner = torch.ones(1, requires_grad=True)
                Checkpointed.apply(inner, ctx.depth - 1, ctx.hook).sum().backward()  # type: ignore[no-untyped-call]
        return gradients[0], None, None


def clip_gradients() -> None:
    """Sleep, where the others reduce."""
    time.sleep(rig.NEVER / 1e3)


def main() -> None:
    """Train; gradients are reduced in a hook of the backward pass."""
    place = rig.start()

    for at_fault in rig.steps(place):

        def reduce(gradient: torch.Tensor, at_fault: bool = at_fault) -> None:
            if at_fault and place.is_faulty:
                clip_gradients()
            dist.all_reduce(gradient)

        value = torch.ones(1, requires_grad=True)
        Checkpointed.apply(value, DEEPEST, reduce).sum().backward()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
