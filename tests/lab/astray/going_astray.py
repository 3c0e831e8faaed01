"""Where a rank of somebody else's program is, once it has gone astray."""

import time


def fetch_quota() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(1e6)


def check_early() -> None:
    """Stand for an evaluation on one rank alone."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.zeros(3, device="cuda"))
    torch.cuda.synchronize()
