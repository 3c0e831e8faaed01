"""On the faulty rank a thread took a lock and died with it; the main thread waits for the lock."""

import threading

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "update_metrics"}

LOCK = threading.Lock()


def report() -> None:
    """Take the lock and leave without giving it back."""
    LOCK.acquire()


def update_metrics() -> None:
    """Let the reporter run, then write beside it."""
    reporter = threading.Thread(target=report)
    reporter.start()
    reporter.join()
    with LOCK:
        pass


if __name__ == "__main__":
    rig.train(rig.start(), update_metrics)
