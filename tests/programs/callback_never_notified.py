"""The faulty rank waits for a callback in a thread pool, and that for room in a buffer that nobody empties."""

import threading
from concurrent.futures import ThreadPoolExecutor

import rig

TRUTH = {
    "or_silent": True,
    "kinds": ["rank_not_joined"],
    "causes": ["user_code"],
    "where": "flush_metrics",
    "thread": "wait_for_room",
}

ROOM = threading.Condition()


def wait_for_room() -> None:
    """Wait until the buffer has room; whoever should say so has gone."""
    with ROOM:
        ROOM.wait()


def flush_metrics() -> None:
    """Have the callback called, and wait for it; a second thread of the pool stays idle."""
    with ThreadPoolExecutor(2) as pool:
        pool.submit(int).result()
        pool.submit(wait_for_room).result()


if __name__ == "__main__":
    rig.train(rig.start(), flush_metrics)
