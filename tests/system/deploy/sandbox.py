"""Runs a program under what a unit grants and forbids, without a running systemd.

Applied: the user, the capabilities, no new privileges, the system call filter, no memory that is both writable and
executable, and mounts of its own with the root file system read-only, so that no rank shares our mount namespace. Not
applied: the other mounts, devices and control groups.
"""

import argparse
import ctypes
import os
import sys
from collections.abc import Sequence

import pyseccomp

from tests.system.deploy.units import REPOSITORY, allowed_system_calls, drop_in_text, unit_text, values_of

SERVICE_USER = 61001
"""A user that owns nothing."""

_PR_SET_MDWE = 65  # linux/prctl.h, since Linux 6.3
_PR_MDWE_REFUSE_EXEC_GAIN = 1
_EPERM = 1


_APART = ("unshare", "--mount", "--propagation", "slave", "sh", "-ec", 'mount -o remount,ro,bind /; exec "$@"', "sh")
"""What PrivateMounts and ProtectSystem=strict bring about, as far as tools of ours can tell."""


def command_under(service: str, program: Sequence[str], *, drop_in: str | None = None) -> tuple[str, ...]:
    """Return the command that runs `program` as the unit of `service` would, with a drop-in or without; needs root."""
    granted = [*_capabilities(unit_text(service)), *_capabilities(drop_in_text(service, drop_in) if drop_in else "")]
    capabilities = "".join(f",+{name.removeprefix('CAP_').lower()}" for name in granted)
    identity = ("--reuid", str(SERVICE_USER), "--regid", str(SERVICE_USER), "--clear-groups")
    sets = (f"--{which}-caps=-all{capabilities}" for which in ("inh", "ambient"))
    bounding = (f"--bounding-set=-all{capabilities}", "--no-new-privs")
    calls = ",".join(sorted(allowed_system_calls(service)))
    inner = (sys.executable, "-m", "tests.system.deploy.sandbox", calls, "--", *program)
    return (*_APART, "setpriv", *identity, *sets, *bounding, "env", f"PYTHONPATH={REPOSITORY}", *inner)


def _capabilities(text: str) -> list[str]:
    return [name for line in values_of(text, "AmbientCapabilities") for name in line.split()]


def _forbid_all_but(allowed: Sequence[str]) -> None:
    """Give up, for this process and what it starts, all other system calls."""
    calls = pyseccomp.SyscallFilter(pyseccomp.ERRNO(_EPERM))
    for name in allowed:
        try:
            calls.add_rule(pyseccomp.ALLOW, name)
        except (OSError, RuntimeError):
            continue  # a call of another architecture, or newer than this libseccomp
    ctypes.CDLL(None).prctl(_PR_SET_MDWE, _PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)
    calls.load()


def main() -> None:
    """Apply the filter, then become the program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("calls")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    _forbid_all_but(arguments.calls.split(","))
    os.execvp(arguments.program[0], arguments.program)


if __name__ == "__main__":
    main()
