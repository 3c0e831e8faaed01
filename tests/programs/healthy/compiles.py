"""Rank 0 compiles one shape after another with inductor, which calls the C++ compiler; the others wait."""

import ranks
import torch


def compile_shapes(deadline: float) -> None:
    """Compile a function that is new each time."""
    number = 1
    while ranks.before(deadline):
        factor = float(number)
        torch._dynamo.reset()
        torch.compile(lambda x, factor=factor: torch.relu(x @ x.T * factor).sum(0).softmax(0))(
            torch.ones(8, number + 8)
        )
        number += 1


if __name__ == "__main__":
    ranks.others_wait_while(compile_shapes)
