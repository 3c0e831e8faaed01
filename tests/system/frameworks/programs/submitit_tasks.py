"""submitit's local executor starts a task for each rank, with a pickled function; its helper sets RANK within the task.

https://github.com/facebookincubator/submitit, docs/tips.md and examples/torch_distributed.py.
"""

import os
import sys

import submitit

FOLDER = os.path.dirname(__file__)


def training() -> None:
    """Train, as a task of submitit's: its standard output is a file of submitit's own."""
    sys.path.insert(0, FOLDER)
    import torch
    import torch.distributed as dist
    from quota import reach_last_step

    environment = submitit.helpers.TorchDistributedEnvironment().export(set_cuda_visible_devices=False)
    dist.init_process_group("gloo")
    for step in range(5):
        if step == 3:
            reach_last_step(environment.rank)
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    executor = submitit.LocalExecutor(sys.argv[1])
    executor.update_parameters(tasks_per_node=2, nodes=1, gpus_per_node=0, timeout_min=15)
    executor.submit(training).wait()
