"""DeepSpeed's engine, with gradients and the optimizer's state sharded."""

import deepspeed
import torch
from torch.utils.data import TensorDataset

CONFIG = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}


def main() -> None:
    """Train; `--local_rank` comes from the launcher."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    data = TensorDataset(torch.ones(64, 4))
    engine, _, loader, _ = deepspeed.initialize(model=model, optimizer=optimizer, training_data=data, config=CONFIG)
    for (batch,) in loader:
        engine.backward(engine(batch.to(engine.device)).sum())
        engine.step()


if __name__ == "__main__":
    main()
