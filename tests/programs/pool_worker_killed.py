"""A worker of the faulty rank's process pool is killed, as by the kernel when memory runs out.

`multiprocessing.Pool` starts another one and forgets the task: the rank waits for its result for ever.
"""

import multiprocessing
import os
import signal

import rig

TRUTH = {"or_silent": True, "kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "tokenize_all"}


def tokenize(document: str) -> int:
    """Take more memory than there is."""
    os.kill(os.getpid(), signal.SIGKILL)
    return len(document)


def tokenize_all() -> list[int]:
    """Let one worker process do it."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.map(tokenize, ["a very large document"])


if __name__ == "__main__":
    rig.train(rig.start(), tokenize_all)
