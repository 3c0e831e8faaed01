"""A rank that hangs in a collective while one of its threads feels its own pulse.

The thread sleeps a millisecond at a time and writes down every gap that is longer than it should be: when the
process is stopped for a look, the gap is the pause. Gaps go to PULSE_DIRECTORY/RANK as `monotonic_ns gap_ns` lines.
"""

import os
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

WORTH_NOTING_NS = 2_500_000


def feel_pulse(path: Path) -> None:
    """Write down the gaps between wakings, for ever."""
    with path.open("w", buffering=1) as notes:
        last = time.monotonic_ns()
        while True:
            time.sleep(0.001)
            now = time.monotonic_ns()
            if now - last > WORTH_NOTING_NS:
                notes.write(f"{now} {now - last}\n")
            last = now


def main() -> None:
    """Train a little, then let rank 0 stay away."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    gradients = torch.ones(16)
    for _ in range(200):
        dist.all_reduce(gradients)
    directory = Path(os.environ["PULSE_DIRECTORY"])
    threading.Thread(target=feel_pulse, args=(directory / str(rank),), daemon=True).start()
    (directory / f"ready-{rank}").touch()
    if rank == 0:
        time.sleep(3600)
    dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
