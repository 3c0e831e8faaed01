"""The faulty rank prints into a pipe whose reader, a log shipper, reads no more: the pipe is full, and print blocks."""

import os
import subprocess

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["pipe_blocked"], "where": "report_progress"}


def redirect_output() -> "subprocess.Popen[bytes]":
    """Send this process's output through a log shipper, which hangs."""
    shipper = subprocess.Popen(["sleep", str(int(rig.NEVER))], stdin=subprocess.PIPE)
    assert shipper.stdin is not None
    os.dup2(shipper.stdin.fileno(), 1)
    return shipper


def report_progress() -> None:
    """Print more than a pipe holds."""
    shipper = redirect_output()
    for sample in range(1_000_000):
        print(f"shipper {shipper.pid}: sample {sample}: loss 0.1234", flush=True)


if __name__ == "__main__":
    rig.train(rig.start(), report_progress)
