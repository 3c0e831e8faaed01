"""Every rank sleeps six seconds between two steps, to spare a shared machine; none waits for long."""

import time

import ranks
import torch
import torch.distributed as dist

HELD_BY: list[int] = []


def main() -> None:
    """Train slowly."""
    dist.init_process_group("gloo")
    ranks.train()
    if dist.get_rank() == 0:
        ranks.say_waiting()
    deadline, goes_on = time.monotonic() + ranks.SECONDS, torch.ones(1)
    while goes_on:
        time.sleep(6)
        goes_on.fill_(ranks.before(deadline))
        dist.all_reduce(goes_on, op=dist.ReduceOp.MIN)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
