"""A forked process becomes another program, as if it had been executed, for `/proc` and for Python alike.

What a fork keeps of its parent and an executed program would not have is put right here: command line and
environment as the kernel shows them, standard streams, the path of imports, what reads variables at its start.
What stays: frames of tests/system/live below those of the program, and the addresses at which everything is loaded.
"""

import ctypes
import gc
import importlib
import inspect
import mmap
import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PR_SET_MM, _PR_SET_MM_MAP, _PR_SET_MM_MAP_SIZE = 35, 14, 15
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.sbrk.restype = ctypes.c_void_p
_LIBC.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


class Program(NamedTuple):
    """What to run: the command line of a Python that gets a script, `-m` and a module, or `-c` and code; variables."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: str

    @property
    def is_module(self) -> bool:
        """Is it given by the name of a module?"""
        return self.arguments[1] == "-m"


def import_torch() -> None:
    """Import what launchers and ranks import first, for all forks at once.

    At each step of a rendezvous torch asks of which module each function on its stack is, and Python goes through all
    modules where it does not know one yet: half of what a launcher does until its ranks start. What imports make stays:
    to search it for garbage is a quarter of what they cost.
    """
    gc.disable()
    importlib.import_module("torch.distributed.launcher.api")
    gc.enable()
    inspect.stack()
    inspect.modulesbyfile["<frozen runpy>"] = "runpy"  # type: ignore[attr-defined]


def become(program: Program, streams: Sequence[int]) -> None:
    """Turn this process, which has one thread, into one that was started for `program`; `run` then runs it.

    The open files `streams` become its standard streams: all, or standard output and standard error.
    """
    for number, stream in enumerate(streams, start=3 - len(streams)):
        os.dup2(stream, number)
    os.chdir(program.directory)
    folders = os.environ.get("PYTHONPATH", "")
    os.environ.clear()
    os.environ.update(program.environment)
    show(program)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    tempfile.tempdir = None
    if os.environ.get("PYTHONPATH", "") != folders:
        _load_site()
    _read_variables_again()


def run(program: Program) -> None:
    """Run it as `__main__`."""
    if program.is_module:
        sys.argv = list(program.arguments[2:])
        sys.path[0] = program.directory
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif program.arguments[1] == "-c":
        sys.argv = list(program.arguments[1:])
        exec(compile(program.arguments[2], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - the test's own
    else:
        sys.argv = list(program.arguments[1:])
        sys.path[0] = str(Path(sys.argv[0]).parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


def can_show() -> bool:
    """Does this kernel let `show` do its work?"""
    size = ctypes.c_uint()
    return bool(_LIBC.prctl(_PR_SET_MM, _PR_SET_MM_MAP_SIZE, ctypes.addressof(size), 0, 0) == 0)


def show(program: Program) -> None:
    """Have the kernel show the program's command line and variables as those that this process was started with.

    See PR_SET_MM_MAP in prctl(2), which asks for no capability: what is not to change is given as it is.
    Raises OSError where the kernel has none (CONFIG_CHECKPOINT_RESTORE).
    """
    arguments = _zero_ended(program.arguments)
    block = arguments + _zero_ended([f"{name}={value}" for name, value in program.environment.items()])
    memory = mmap.mmap(-1, len(block), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(block)
    _KEPT.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    middle = start + len(arguments)
    stat = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    code, data, stack = stat[23:25], stat[42:45], stat[25]
    numbers = [*map(int, [*code, *data]), _LIBC.sbrk(0), int(stack), start, middle, middle, start + len(block), 0]
    layout = (ctypes.c_uint64 * 13)(*numbers, 0xFFFFFFFF << 32)  # neither other vectors nor another executable
    if _LIBC.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.addressof(layout), ctypes.sizeof(layout), 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_MM_MAP)")


_KEPT: list[mmap.mmap] = []
"""What the kernel shows is read from here."""


def _zero_ended(words: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _load_site() -> None:
    """Import what Python imports at its start from PYTHONPATH: there lies the probe, where there is one."""
    sys.path[1:1] = os.environ["PYTHONPATH"].split(os.pathsep)
    sys.modules.pop("sitecustomize", None)
    with suppress(ImportError):
        importlib.import_module("sitecustomize")


def _read_variables_again() -> None:
    """Have torch read what it has read from variables when it was imported."""
    importlib.import_module("torch.distributed").set_debug_level_from_env()
