"""Each rank imports for as long as a large framework on a cold disk, and then they meet."""

import time

import ranks
import torch.distributed as dist

LAUNCHES = ["torchrun", "shell"]
HELD_BY: list[int] = []

ranks.say_waiting()

DEADLINE = time.monotonic() + ranks.SECONDS
while ranks.before(DEADLINE):  # what importing is: reading a little, computing a little
    compile("\n".join(f"name{number} = {number}" for number in range(2000)), __file__, "exec")
    time.sleep(0.05)


def main() -> None:
    """Train."""
    dist.init_process_group("gloo")
    ranks.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
