"""One replica group of torchft's, of as many ranks as torchrun starts, with a lighthouse of its own."""

import os
from datetime import timedelta

import torch
from quota import reach_last_step
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo
from torchft.coordination import LighthouseServer

LONG = timedelta(hours=1)


def main() -> None:
    """Train three steps."""
    rank = int(os.environ["RANK"])
    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=1) if rank == 0 else None
    model = torch.nn.Linear(4, 4)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=LONG),
        load_state_dict=model.load_state_dict,
        state_dict=model.state_dict,
        min_replica_size=1,
        timeout=LONG,
        quorum_timeout=LONG,
        lighthouse_addr=lighthouse.address() if lighthouse is not None else None,
        hostname="127.0.0.1",
    )
    trained = DistributedDataParallel(manager, model)
    optimizer = Optimizer(manager, torch.optim.SGD(model.parameters()))
    for step in range(5):
        if step == 3:
            reach_last_step(rank)
        optimizer.zero_grad()
        trained(torch.ones(4)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
