"""A command in a child process, so that the prompt comes back although a thread of the command never ends.

Whoever reads the memory of a process, its command line or its variables may wait in the kernel for a page that never
comes. No signal ends that thread, and a process with such a thread is not gone before the thread is. So a child does
the work, and its parent, which reads nothing, exits with the status that the child tells at its end.

The child is in the parent's process group: what a terminal sends reaches both. What others send the parent is passed
on, and if the parent is killed, the child ends as by SIGTERM.
"""

import os
import signal
import sys
import time
from collections.abc import Callable

from agent.proc.libc import call_libc

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SENT_BY_KERNEL = 0x80
"""SI_KERNEL in asm-generic/siginfo.h: what a terminal sends, to its whole foreground process group."""
_PR_SET_PDEATHSIG = 1
_EXIT_SECONDS = 1.0
"""From the status to the end of the child, which takes a few hundredths of that."""
_CLEAN_UP_SECONDS = 5.0
"""From a signal to the status: the child kills its helpers, and waits two seconds for them at most."""
_FOR_EVER = 1e6

_parents: set[int] = set()


def own_pids() -> frozenset[int]:
    """Return this process and the parent that only waits for it."""
    return frozenset(_parents | {os.getpid()})


def run_in_child(work: Callable[[], int]) -> int:
    """Return the status of `work`, in a child that does it; here never return. Only before threads are started."""
    heard, told = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_ENDING, signal.SIGCHLD))
    parent, child = os.getpid(), os.fork()
    if child:
        os.close(told)
        os._exit(_wait_for(child, heard))
    _parents.add(parent)
    call_libc("prctl", _PR_SET_PDEATHSIG, int(signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    status = work()
    _leave_streams()
    os.write(told, bytes([status]))
    if os.getppid() == parent:
        os.kill(parent, signal.SIGCHLD)  # as if we had ended, which may take as long as a thread is blocked
    return status


def _leave_streams() -> None:
    """Let whoever reads our output come to its end now."""
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)


def _wait_for(child: int, heard: int) -> int:
    """Wait until the child has ended; once it has told its status, or was sent a signal, not for long."""
    os.set_blocking(heard, False)
    heeded = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    told, late, until = False, 1, time.monotonic() + _FOR_EVER
    while (seen := signal.sigtimedwait((*heeded, signal.SIGCHLD), max(0.0, until - time.monotonic()))) is not None:
        if seen.si_signo != signal.SIGCHLD:
            if not told:
                late, until = 128 + seen.si_signo, min(until, time.monotonic() + _CLEAN_UP_SECONDS)
            if seen.si_code != _SENT_BY_KERNEL:
                os.kill(child, seen.si_signo)
            continue
        ended, how = os.waitpid(child, os.WNOHANG)
        if not told and (said := _heard(heard)):
            told, late, until = True, said[0], time.monotonic() + _EXIT_SECONDS
        if ended and not told:
            code = os.waitstatus_to_exitcode(how)
            return code if code >= 0 else 128 - code
        if ended:
            break
    return late


def _heard(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1)
    except BlockingIOError:
        return b""
