"""The lock file that a rank polls, and who holds it: a part of what the source `stacks` fills in.

A poll blocks in no system call, so the kernel does not know what it is for. The frames that poll hold the name among
their variables. A lock that exists by its file alone is held by whoever has the file open; of any other, by whoever has
locked the file.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.job_files import open_named
from agent.proc.mounts import is_remote
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import is_initial_namespace
from agent.sources.contended_file import is_same_file, openers
from agent.sources.look_context import LookContext
from agent.sources.process import holders_of
from agent.tools.frame_variables import FrameVariables, variables_of_main_thread
from shared.errors import NotPermitted
from shared.redaction.redact import redact
from shared.wire.snapshot import PolledLock
from shared.wire.stacks import Stacks

_SECONDS = 1.0
_LONGEST_PATH = 4096
_INNERMOST = 4
"""Frames among which the one that polls stands."""
_INIT = 1
"""Of the machine: it builds nothing, and may be closed to root as well."""
_PRIVATE = frozenset({"overlay", "ramfs"})
"""File systems that processes of one container alone see."""
_TEXT = re.compile(r'"(/?[^"\\\n\0]{1,4000})"')
"""A text as py-spy prints it; a name with quotes or escapes in it is not taken for a path."""


class _Poll(NamedTuple):
    polling: re.Pattern[str]
    """The file of the frame that polls."""
    naming: re.Pattern[str]
    """The file of the frame that has the name, in `variable`."""
    variable: str
    within: str = ""
    """The lock's name in the directory that `variable` tells."""


_POLLS = (
    # FileBaton.wait (torch/utils/file_baton.py:50) called by _jit_compile (torch/utils/cpp_extension.py:2400)
    _Poll(
        re.compile(r"(^|/)torch/utils/file_baton\.py$"),
        re.compile(r"(^|/)torch/utils/cpp_extension\.py$"),
        "build_directory",
        "lock",
    ),
    # BaseFileLock._poll_until_acquired (filelock/_api.py:1177); BaseFileLock.acquire (filelock/_api.py:204)
    # LockAcquisition._poll_until_acquired (filelock/_core/_acquire.py:177), since filelock 4
    _Poll(
        re.compile(r"(^|/)filelock/(_core/)?_\w+\.py$"),
        re.compile(r"(^|/)filelock/(_api|_core/_acquire)\.py$"),
        "lock_filename",
    ),
)


def polled_lock(
    stacks: object, rank: Rank, context: LookContext, program: Path | None, deadline: Deadline
) -> PolledLock | None:
    """Return the lock that the rank's main thread polls for; None where its stack shows no such poll."""
    poll = _poll_of(stacks)
    if poll is None or program is None:
        return None
    with suppress(Gone, NotPermitted):
        frames = variables_of_main_thread(rank.stat.pid, program, deadline.at_most(_SECONDS))
        path = _path(poll, frames, context, rank.stat.pid)
        if path is not None:
            by_existence = bool(poll.within) or any("<SoftFileLock" in f.variables.get("self", "") for f in frames)
            return _described(path, rank, context, by_existence=by_existence)
    return PolledLock()


def _poll_of(stacks: object) -> _Poll | None:
    if not isinstance(stacks, Stacks) or stacks.main is None:
        return None
    files = [frame.file for frame in stacks.stack(stacks.main)[-_INNERMOST:] if not frame.native]
    return next((poll for poll in _POLLS if any(poll.polling.search(file) for file in files)), None)


def _path(poll: _Poll, frames: tuple[FrameVariables, ...], context: LookContext, pid: int) -> str | None:
    told = (frame.variables[poll.variable] for frame in frames if _names(frame, poll))
    name = next((match[1] for match in map(_TEXT.fullmatch, told) if match is not None), None)
    if name is None:
        return None
    path = os.path.join(context.procfs.link(pid, "cwd"), name, poll.within).rstrip("/")
    return path if len(path) <= _LONGEST_PATH else None


def _names(frame: FrameVariables, poll: _Poll) -> bool:
    return poll.variable in frame.variables and poll.naming.search(frame.file) is not None


def _described(path: str, rank: Rank, context: LookContext, *, by_existence: bool) -> PolledLock:
    mount = context.mounts(rank.stat.pid).of_path(path)
    file_system = None if mount is None else mount.kind
    lock = PolledLock(path=redact(path), file_system=file_system, remote=is_remote(file_system))
    about = None if lock.remote else _status(path, rank, context)
    seen = openers(context, path, rank.stat.pid)
    pids = [
        pid
        for pid, opened in seen.found.items()
        if any((by_existence or o.locked) and is_same_file(context, pid, o, path, about) for o in opened)
    ]
    lock = lock.model_copy(update={"holders": holders_of(context.procfs, pids, rank.stat.pid)})
    if about is None:
        return lock
    sees_all = is_initial_namespace("pid")
    others = (pid for pid in seen.hidden if not (pid == _INIT and sees_all))
    whole = seen.in_time and not any(_may_be_of(about.st_uid, pid, context) for pid in others)
    sure = by_existence and whole and (sees_all or file_system in _PRIVATE)
    return lock.model_copy(update={"held_since": about.st_mtime, "abandoned": sure and not pids})


def _may_be_of(owner: int, pid: int, context: LookContext) -> bool:
    """May a process that cannot be looked through be one of the file's owner?"""
    try:
        status = context.procfs.fields(pid, "status")
        return not status["State"].startswith(("Z", "X")) and int(status["Uid"].split()[1]) == owner
    except Gone:
        return False
    except (NotPermitted, LookupError, ValueError):
        return True


def _status(path: str, rank: Rank, context: LookContext) -> os.stat_result | None:
    """Ask the file, as far as those could who may have started the job."""
    procfs, pid = context.procfs, rank.stat.pid
    with (
        suppress(Gone, NotPermitted, Unavailable, OSError),
        open_named(procfs, pid, path, readers_of(procfs, pid)) as file,
    ):
        return os.fstat(file)
    return None
