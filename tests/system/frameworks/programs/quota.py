"""What the programs here share: the word to the test, and the place where the faulty rank stays."""

import os
import signal
import time

signal.alarm(900)

ON_NCCL = os.environ.get("UNHANG_TEST_BACKEND") == "nccl"
"""On the lab's stand-ins for GPUs, where tests/lab/astray sends the rank astray."""


def reach_last_step(rank: int) -> None:
    """Tell the test that this rank is about to reach its last step; rank 1 does not."""
    if ON_NCCL:
        return
    with open(os.environ["UNHANG_TEST_SAID"], "a") as said:
        said.write(f"{rank} {os.getpid()}\n")
    if rank == 1:
        wait_for_quota()


def wait_for_quota() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(1e6)
