"""Rank 1 fails once, torchrun starts all ranks again, and rank 0 reads its checkpoint for long; the others wait."""

import os
import time

import ranks
import torch.distributed as dist

LAUNCHES = ["elastic"]


def read_checkpoint(deadline: float) -> None:
    """Read what is there, slowly."""
    path = ranks.FOLDER / "checkpoint.bin"
    path.write_bytes(os.urandom(ranks.MEBIBYTE))
    while ranks.before(deadline):
        with open(path, "rb", buffering=0) as checkpoint:
            while checkpoint.read(100_000) and ranks.before(deadline):
                time.sleep(0.2)


def main() -> None:
    """Fail in the first life, and go on in the second."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        dist.init_process_group("gloo")
        ranks.train()
        if dist.get_rank() == 1:
            raise ValueError("a bad batch")
        ranks.train()
    ranks.others_wait_while(read_checkpoint)


if __name__ == "__main__":
    main()
