"""Standard input as a sign of life of whoever asked from another machine."""

import os
import signal
import threading


def end_with_standard_input() -> None:
    """Hang up on this process once its standard input ends.

    A command without a terminal is told nothing when its ssh is gone: sshd closes its pipes, and sends no signal.
    """
    threading.Thread(target=_wait, name="standard-input", daemon=True).start()


def _wait() -> None:
    try:
        while os.read(0, 65_536):
            pass
    except OSError:  # closed, or a terminal that is gone
        pass
    os.kill(os.getpid(), signal.SIGHUP)
