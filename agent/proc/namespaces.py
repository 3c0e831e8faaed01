"""Whether we live where the kernel counts from: in the namespaces that the machine was started with."""

import os
from typing import Literal

_INITIAL = {"pid": 0xEFFFFFFC, "cgroup": 0xEFFFFFFB}
"""PROC_PID_INIT_INO and PROC_CGROUP_INIT_INO in include/linux/proc_ns.h."""


def is_initial_namespace(kind: Literal["pid", "cgroup"]) -> bool:
    """Is our own namespace of that kind the machine's first one? Not where nothing tells."""
    try:
        return os.readlink(f"/proc/self/ns/{kind}") == f"{kind}:[{_INITIAL[kind]}]"
    except OSError:
        return False
