"""Programs of another user who has certain capabilities alone, and what the kernel asks capabilities for."""

import subprocess
import sys
from pathlib import Path

_USER = "61004"


def run_with_capabilities(capabilities: str, program: str) -> "subprocess.CompletedProcess[str]":
    """Run Python code as a user with these capabilities and no others, as setpriv(1) writes them: `+syslog`."""
    sets = [f"--{name}=-all,{capabilities}" for name in ("inh-caps", "ambient-caps", "bounding-set")]
    user = ["--reuid", _USER, "--regid", _USER, "--clear-groups", *sets]
    command = ["setpriv", *user, sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def is_dmesg_restricted() -> bool:
    """Is the kernel's log only for holders of CAP_SYSLOG?"""
    return Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() != "0"
