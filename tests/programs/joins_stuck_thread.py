"""The faulty rank waits for the end of a thread of its own, which reads from a pipe that nobody writes into."""

import os
import threading

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "save", "thread": "upload"}


def upload(reading: int) -> None:
    """Wait for the word that an upload is done."""
    os.read(reading, 1)


def idle() -> None:
    """Be another thread that has nothing to do with it."""
    threading.Event().wait()


def save() -> None:
    """Upload in a thread, and wait for it."""
    reading, _ = os.pipe()
    threading.Thread(target=idle, daemon=True).start()
    uploading = threading.Thread(target=upload, args=(reading,), name="uploader", daemon=True)
    uploading.start()
    uploading.join()


if __name__ == "__main__":
    rig.train(rig.start(), save)
