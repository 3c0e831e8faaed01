"""Lightning starts its own ranks, as processes that run the script again (`ddp`) or spawned (`ddp_spawn`)."""

import sys

import pytorch_lightning as lightning
import torch
from quota import ON_NCCL, reach_last_step
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    """A layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """Train."""
        if index == 3:
            reach_last_step(self.global_rank)
        return self.layer(batch[0]).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return what every example has."""
        return torch.optim.SGD(self.parameters(), 0.1)


def main() -> None:
    """Train on two devices, by the strategy that the command line names."""
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    accelerator = "cuda" if ON_NCCL else "cpu"
    trainer = lightning.Trainer(accelerator=accelerator, devices=2, strategy=sys.argv[1], max_epochs=1, **quiet)
    trainer.fit(Model(), DataLoader(TensorDataset(torch.ones(64, 4)), batch_size=4))


if __name__ == "__main__":
    main()
