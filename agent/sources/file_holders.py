"""Who else has a file open, by what the kernel tells of all descriptors: only a file that is local is asked itself."""

import os
import time
from contextlib import suppress
from typing import NamedTuple

from agent.errors import Gone
from agent.proc.mounts import is_remote
from agent.sources.fds import Descriptor, describe
from agent.sources.look_context import LookContext
from shared.errors import NotPermitted

_SECONDS = 1.0


class Openers(NamedTuple):
    """Other processes that have a file of some name open, each with those descriptors."""

    found: dict[int, list[Descriptor]]
    hidden: tuple[int, ...]
    """Processes whose descriptors may not be seen."""
    in_time: bool
    """Were all processes looked through?"""


def openers(context: LookContext, path: str, own: int) -> Openers:
    """Look through what all processes but `own` have open, as far as one second reaches.

    By name: in another container the same file may have another path.
    """
    found: dict[int, list[Descriptor]] = {}
    hidden: list[int] = []
    until, name = time.monotonic() + _SECONDS, os.path.basename(path)
    for pid in context.procfs.pids():
        if time.monotonic() > until:
            return Openers(found, tuple(hidden), in_time=False)
        try:
            opened = [] if pid == own else [_described(context, pid, fd, name) for fd in context.procfs.fds(pid)]
        except NotPermitted:
            hidden.append(pid)
        except Gone:
            continue
        else:
            found[pid] = [each for each in opened if each is not None]
    return Openers(found, tuple(hidden), in_time=True)


def _described(context: LookContext, pid: int, fd: int, name: str) -> Descriptor | None:
    with suppress(Gone):
        if os.path.basename(context.procfs.link(pid, f"fd/{fd}")) == name:
            return describe(context, pid, fd)
    return None


def is_same_file(context: LookContext, pid: int, opened: Descriptor, path: str, about: os.stat_result | None) -> bool:
    """Does a descriptor lead to that file? `about` it: None where it lies on another machine, which is not asked."""
    if about is None or is_remote(opened.file_system):
        return opened.target == path
    with suppress(OSError):
        return os.path.samestat(os.stat(context.procfs.path(pid, f"fd/{opened.fd}")), about)
    return False
