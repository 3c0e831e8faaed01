"""Lets an unhang agent ask a rank for its flight record; standard library only, Python 3.8 or later.

When a process group is about to be made, it opens torch's own worker server in this process on a unix
socket that only this user can reach. From then on it writes down each group's name, description, backend
and members beside it. It prints nothing, starts nothing of its own, and swallows each of its failures into
a small file: a job must run as it would without it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import json
import os
import socket
import stat
import tempfile
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_LONGEST_SOCKET_PATH = 107
_FATAL = 3
_SUFFIXES = (".sock", ".groups.json", ".status.json")


def attach(c10d: Any) -> None:
    """Put ourselves around the functions of torch.distributed that make groups."""
    try:
        probe = _Probe(c10d)
        if hasattr(c10d, "rendezvous"):
            c10d.rendezvous = _before(c10d.rendezvous, probe.open)
        c10d._new_process_group_helper = _around(c10d._new_process_group_helper, probe)
        for name in ("split_group", "shrink_group"):
            if hasattr(c10d, name):
                setattr(c10d, name, _around(getattr(c10d, name), probe))
    except Exception as error:  # noqa: BLE001 - a job must never fail because of us
        _complain(error)


def _before(function: Callable[..., Any], call: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def rendezvous(*args: Any, **kwargs: Any) -> Any:
        call()
        return function(*args, **kwargs)

    return _in_the_name_of(function, rendezvous)


def _around(function: Callable[..., Any], probe: _Probe) -> Callable[..., Any]:
    @functools.wraps(function)
    def make_group(*args: Any, **kwargs: Any) -> Any:
        probe.open()
        result = function(*args, **kwargs)
        probe.note(args, kwargs)
        return result

    return _in_the_name_of(function, make_group)


def _in_the_name_of(function: Any, wrapper: Any) -> Callable[..., Any]:
    """Let stacks show the function that a wrapper replaces, so that our code is not mistaken for the user's."""
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        code = function.__code__
        wrapper.__code__ = wrapper.__code__.replace(
            co_filename=code.co_filename, co_name=code.co_name, co_firstlineno=code.co_firstlineno
        )
    named: Callable[..., Any] = wrapper
    return named


class _Probe:
    """The server and the list of groups of this process."""

    def __init__(self, c10d: Any) -> None:
        self._c10d = c10d
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._path: str | None = None
        self._groups: dict[str, dict[str, Any]] = {}

    def open(self) -> None:
        """Open the server unless that was tried before in this very process (a fork tries for itself)."""
        try:
            with self._lock:
                if self._owner == os.getpid():
                    return
                self._owner, self._path, self._groups = os.getpid(), None, {}
                _set_variables(self._c10d)
                self._serve()
        except Exception as error:  # noqa: BLE001 - a job must never fail because of us
            _complain(error)

    def note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Write down the groups that exist now."""
        try:
            with self._lock:
                before = len(self._groups)
                self._add_from_arguments(args, kwargs)
                self._add_from_world()
                if self._path is not None and len(self._groups) != before:
                    _write(self._path + ".groups.json", self._description())
        except Exception as error:  # noqa: BLE001 - a job must never fail because of us
            _complain(error)

    def _serve(self) -> None:
        from torch._C._distributed_c10d import _WorkerServer

        folder = _folder()
        _remove_stale(folder)
        path = _free_path(folder)
        with _quiet():
            server = _WorkerServer(path + ".sock", -1)
        # Never destroyed: a fork that ends would wait for threads that only its parent has, and at the end of
        # this process there is nothing to wait for.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
        # The directory keeps others out. An agent that is not root passes it with CAP_DAC_READ_SEARCH, and could
        # not connect to a socket that it may not write to.
        os.chmod(path + ".sock", 0o666)
        self._path = path
        atexit.register(self._close, os.getpid())

    def _add_from_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Read `_new_process_group_helper(size, rank, ranks, backend, store, group_name, ..., group_desc=)`."""
        names = ("group_size", "group_rank", "global_ranks_in_group", "backend", "store", "group_name")
        given = {**dict(zip(names, args)), **kwargs}  # noqa: B905 - `strict` came with Python 3.10
        if "group_name" not in given or "global_ranks_in_group" not in given:
            return
        ranks = list(given["global_ranks_in_group"] or range(int(given.get("group_size", 0))))
        own = self._rank()
        if own is None or own in ranks:
            description = given.get("group_desc") or "undefined"
            self._add(str(given["group_name"]), description, str(given.get("backend", "")), ranks)

    def _add_from_world(self) -> None:
        """Read torch's own table as well: not every way to make a group goes through one function."""
        world = self._c10d._world
        for group, ranks in list(world.pg_group_ranks.items()):
            name = world.pg_names.get(group)
            if name is not None and name not in self._groups:
                ordered = sorted(ranks, key=ranks.get)
                backend = world.pg_map.get(group, ("",))[0]
                self._add(str(name), getattr(group, "group_desc", "undefined"), str(backend), ordered)

    def _add(self, name: str, description: str, backend: str, ranks: list[int]) -> None:
        entry = {"name": name, "description": description, "backend": backend, "ranks": ranks}
        self._groups.setdefault(name, entry)

    def _rank(self) -> int | None:
        try:
            return int(self._c10d.get_rank())
        except Exception:  # noqa: BLE001 - the default group is not there yet, which each version says its way
            return None

    def _description(self) -> dict[str, Any]:
        return {"version": 1, "rank": self._rank(), "groups": list(self._groups.values())}

    def _close(self, owner: int) -> None:
        """When the process that opened it ends, remove what leads to the server."""
        if owner == os.getpid() and self._path is not None:
            _remove(self._path)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from announcing the server on standard error: this process has not asked for it."""
    try:
        level = ctypes.c_int.in_dll(ctypes.CDLL("libc10.so"), "FLAGS_caffe2_log_level")
    except (OSError, ValueError):
        yield
        return
    before, level.value = level.value, _FATAL
    try:
        yield
    finally:
        level.value = before


def _set_variables(c10d: Any) -> None:
    """Switch the recorder on where it is off by default; what the job has set stays as it is."""
    import torch

    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    names = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")  # the first since 2.8, which warns of the second
    # From 2.11 on 2000 is the default: pytorch/pytorch pull request 172843. 142260, in 2.6, had left the recorder off.
    if version < (2, 11) and not any(name in os.environ for name in names):
        os.environ[names[0] if version >= (2, 8) else names[1]] = "2000"
    if c10d.is_nccl_available():
        os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")


def _folder() -> str:
    """Return the directory for our files, which is this user's alone. Raises OSError where it is not."""
    folder = os.environ.get("UNHANG_PROBE_DIR") or f"/tmp/unhang-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise OSError(f"{folder} is not a directory of this user alone")
    return folder


def _free_path(folder: str) -> str:
    for suffix in ("", "-1", "-2", "-3"):
        path = os.path.join(folder, f"{os.getpid()}{suffix}")
        if len(os.fsencode(path + ".sock")) > _LONGEST_SOCKET_PATH:
            raise OSError(f"the path of the socket would be too long: {path}")
        if not os.path.exists(path + ".sock"):
            return path
    raise OSError(f"sockets of this process's number exist already in {folder}")


def _remove_stale(folder: str) -> None:
    """Remove sockets on which no process listens any more."""
    for name in os.listdir(folder):
        if name.endswith(".sock") and not _is_served(os.path.join(folder, name)):
            _remove(os.path.join(folder, name[: -len(".sock")]))


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.setblocking(False)
        try:
            channel.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


def _remove(path: str) -> None:
    for suffix in _SUFFIXES:
        with contextlib.suppress(OSError):
            os.unlink(path + suffix)


def _write(path: str, value: dict[str, Any]) -> None:
    """Write a file so that readers see it whole or not at all."""
    opened, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".writing-")
    try:
        with os.fdopen(opened, "w") as file:
            json.dump(value, file)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _complain(error: Exception) -> None:
    """Leave word of a failure for the agent."""
    try:
        path = os.path.join(_folder(), f"{os.getpid()}.status.json")
        _write(path, {"version": 1, "error": f"{type(error).__name__}: {error}"[:500]})
    except Exception:  # noqa: BLE001 - then no one can be notified
        return
