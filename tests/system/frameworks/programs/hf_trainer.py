"""The Trainer of Hugging Face's transformers, under torchrun."""

import sys

import torch
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    """A layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return a loss, as the trainer wants it."""
        return {"loss": self.layer(x).sum()}


def main() -> None:
    """Train, writing into the folder that the command line names."""
    arguments = TrainingArguments(
        sys.argv[1], per_device_train_batch_size=4, report_to=[], save_strategy="no", disable_tqdm=True,
        remove_unused_columns=False,
    )  # fmt: skip
    data = [{"x": torch.ones(4)} for _ in range(64)]
    Trainer(model=Model(), args=arguments, train_dataset=data).train()


if __name__ == "__main__":
    main()
