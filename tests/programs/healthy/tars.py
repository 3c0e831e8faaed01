"""Rank 0 stages its data: tar reads thousands of small files from a slow disk into a pipe; the others wait."""

import subprocess
import time

import ranks


def stage(deadline: float) -> None:
    """Read what tar writes, half a megabyte a second."""
    source = ranks.FOLDER / "samples"
    source.mkdir()
    for number in range(3000):
        (source / f"{number:05}.bin").write_bytes(b"x" * 40_000)
    while ranks.before(deadline):
        with subprocess.Popen(["tar", "-C", str(source), "-cf", "-", "."], stdout=subprocess.PIPE) as tar:
            assert tar.stdout is not None
            while ranks.before(deadline) and tar.stdout.read(50_000):
                time.sleep(0.1)
            tar.terminate()


if __name__ == "__main__":
    ranks.others_wait_while(stage)
