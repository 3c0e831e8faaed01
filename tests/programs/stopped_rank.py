"""The faulty rank stops itself with SIGSTOP, as a debugger, a shell's ^Z or a frozen container would."""

import os
import signal

import rig

TRUTH = {"kinds": ["rank_stopped"], "causes": ["signal"]}

if __name__ == "__main__":
    rig.train(rig.start(), lambda: os.kill(os.getpid(), signal.SIGSTOP))
