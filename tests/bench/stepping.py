"""A rank that trains: some arithmetic and an all_reduce per step, and the time of each step written down.

Steps go to PULSE_DIRECTORY/RANK as `monotonic_ns step_ns` lines, when they end. With STEPPING_PROCESSOR all ranks run
on that one processor and rank 0 alone has arithmetic to do, so that it has a processor for itself as a rank of a real
job has; but PyTorch's worker server, through which a rank answers who looks at it, stays where it was.
"""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

STEP_SECONDS = 0.02
"""Of arithmetic in each step, by the processor's own time, as a small model takes it."""
_ANSWERS = "pt_workerserver"


def main() -> None:
    """Train until told to end."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    weights, gradients = torch.randn(128, 128), torch.ones(65_536)
    directory = Path(os.environ["PULSE_DIRECTORY"])
    rounds = _rounds(weights)
    processor = os.environ.get("STEPPING_PROCESSOR")
    if processor is not None:
        _move_to(int(processor))
        rounds = rounds if rank == 0 else 0
    with (directory / str(rank)).open("w", buffering=1) as notes:
        for _ in range(50):
            _step(weights, gradients, rounds)
        (directory / f"ready-{rank}").touch()
        while True:
            begun = time.monotonic_ns()
            _step(weights, gradients, rounds)
            ended = time.monotonic_ns()
            notes.write(f"{ended} {ended - begun}\n")


def _move_to(processor: int) -> None:
    for thread in Path("/proc/self/task").iterdir():
        if (thread / "comm").read_text().strip() != _ANSWERS:
            os.sched_setaffinity(int(thread.name), {processor})


def _step(weights: torch.Tensor, gradients: torch.Tensor, rounds: int) -> None:
    for _ in range(rounds):
        weights = torch.tanh(weights @ weights * 0.01)
    dist.all_reduce(gradients)
    gradients.fill_(1.0)


def _rounds(weights: torch.Tensor) -> int:
    """Return how much arithmetic takes as long as a step should; the same on all ranks."""
    begun, count = time.thread_time(), 0
    while time.thread_time() - begun < 0.5:
        torch.tanh(weights @ weights * 0.01)
        count += 1
    rounds = torch.tensor([count * STEP_SECONDS / 0.5])
    dist.broadcast(rounds, src=0)
    return max(1, int(rounds.item()))


if __name__ == "__main__":
    main()
