"""Rank 0 holds a lock file while it downloads, as huggingface_hub does; the others wait for the lock."""

import time

import filelock
import ranks
import torch.distributed as dist


def download_in_turns() -> None:
    """Let whoever comes first download, and all others find it there."""
    path = ranks.FOLDER / "model.bin"
    if dist.get_rank() != 0:
        time.sleep(1.0)
    with filelock.FileLock(f"{path}.lock"):
        if path.exists():
            return
        ranks.say_waiting()
        deadline = time.monotonic() + ranks.SECONDS
        with open(f"{path}.incomplete", "wb") as incomplete:
            while ranks.before(deadline):
                incomplete.write(b"x" * 100_000)
                incomplete.flush()
                time.sleep(0.5)
        path.with_suffix(".bin.incomplete").rename(path)


def main() -> None:
    """Train, download, train."""
    dist.init_process_group("gloo")
    ranks.train()
    download_in_turns()
    ranks.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
