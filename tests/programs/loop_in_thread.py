"""The training loop runs in a thread; the main thread is an event loop that looks at the time, and never stands still.

So do Ray's workers, Spark's and the kernels of notebooks. On the faulty rank the thread sleeps before the collective.
"""

import asyncio
import threading
import time

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "evaluate", "busy": [0, 1, 2, 3]}


def evaluate() -> None:
    """Sleep, where the others go on to the reduction."""
    time.sleep(rig.NEVER / 1e3)


def train_loop() -> None:
    """Train as always."""
    rig.train(rig.start(), evaluate)


async def heartbeat() -> None:
    """Wake up a hundred times a second, and do nothing."""
    while True:  # noqa: ASYNC110 - to look at the time is what it is for
        await asyncio.sleep(0.01)


def main() -> None:
    """Train beside the main thread."""
    threading.Thread(target=train_loop, name="training", daemon=True).start()
    asyncio.run(heartbeat())


if __name__ == "__main__":
    main()
