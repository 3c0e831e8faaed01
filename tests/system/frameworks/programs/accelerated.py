"""A plain loop with accelerate, as its guide has it."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    """Train."""
    accelerator = Accelerator()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = DataLoader(TensorDataset(torch.ones(64, 4)), batch_size=4)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for (batch,) in data:
        accelerator.backward(model(batch).sum())
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
