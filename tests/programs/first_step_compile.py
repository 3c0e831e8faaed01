"""Nothing is wrong: rank 0 compiles in the first step with a compiler of its own, and the others wait at the barrier.

The compiler is a child process at work for half a minute; rank 0 itself stands still all the time.
"""

import subprocess
import sys

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell", "slow"]}

COMPILER = "import time; end = time.monotonic() + 30\nwhile time.monotonic() < end: sum(range(10000))"


def compile_kernels() -> None:
    """Run the compiler."""
    subprocess.run([sys.executable, "-S", "-c", COMPILER], check=True)


def main() -> None:
    """Train; before that rank 0 compiles for all."""
    place = rig.start()
    rig.say_ready(f"rank {place.rank}")
    if place.rank == 0:
        compile_kernels()
    dist.barrier()
    while True:
        dist.all_reduce(torch.ones(16))


if __name__ == "__main__":
    main()
