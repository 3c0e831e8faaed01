"""The faulty rank stops itself with SIGSTOP, as a debugger, a shell's ^Z or a frozen container would."""

import os
import signal

import rig

TRUTH = {"kinds": ["rank_stopped"], "causes": ["signal"]}


def main() -> None:
    """Train; at the faulty step one rank is stopped."""
    place = rig.start()
    rig.train(place, lambda: os.kill(os.getpid(), signal.SIGSTOP))


if __name__ == "__main__":
    main()
