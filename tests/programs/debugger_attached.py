"""Somebody attached a debugger to the faulty rank from outside, and left it stopped there.

Nobody else can attach as long as that one does, so no stack can be read: the process's own state tells.
"""

import ctypes
import os
import subprocess
import sys
import time

import rig

TRUTH = {"kinds": ["rank_not_joined", "rank_stopped"], "causes": ["debugger"]}

PR_SET_PTRACER = 0x59616D61
PTRACE_ATTACH = 16
ATTACH = f"""
import ctypes, os, time
ctypes.CDLL(None).ptrace({PTRACE_ATTACH}, os.getppid(), None, None)
time.sleep(1e9)
"""


def be_debugged() -> None:
    """Let a child attach to this process, and never be let go."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, os.getpid(), 0, 0, 0)
    subprocess.Popen([sys.executable, "-S", "-c", ATTACH])
    time.sleep(rig.NEVER)


if __name__ == "__main__":
    rig.train(rig.start(), be_debugged)
