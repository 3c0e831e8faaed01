"""The faulty rank joins a child that cannot end: its results fill a queue that nobody empties before the join."""

import multiprocessing

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "prepare_batch"}


def tokenize(results: "multiprocessing.Queue[bytes]") -> None:
    """Put more into the queue than its pipe holds."""
    results.put(bytes(1 << 20))


def prepare_batch() -> bytes:
    """Wait for the child before taking its result, which is the wrong order."""
    context = multiprocessing.get_context("fork")
    results: multiprocessing.Queue[bytes] = context.Queue()
    child = context.Process(target=tokenize, args=[results])
    child.start()
    child.join()
    return results.get()


if __name__ == "__main__":
    rig.train(rig.start(), prepare_batch)
