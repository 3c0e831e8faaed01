"""Whose code a frame is: the user's, an installed package's, or Python's own library's."""

import re
from collections.abc import Sequence

from shared.wire.stacks import Frame

_LIBRARY = re.compile(r"site-packages/|dist-packages/|/lib/python3|^<frozen|(^|/)sitecustomize\.py$")
_STANDARD = re.compile(r"/lib/python3[^/]*/(?!site-packages/|dist-packages/)|^<frozen")
_STDLIB_SHORT = re.compile(
    r"^(threading|selectors|queue|subprocess|socket|runpy|pdb|bdb|cmd)\.py$|^(multiprocessing|torch|asyncio|concurrent)/"
)
# __init__ (<string>:3), of a data class
_MADE = re.compile(r"(^|\.)__\w+__$")
# gather_counts.<locals>.<listcomp>: from Python 3.12 on it is part of the function around it
_COMPREHENSION = re.compile(r"(^|\.)<(list|set|dict)comp>$")


def is_user_frame(frame: Frame) -> bool:
    """Is the frame in the user's own code: not native, not the standard library, not an installed package?

    What is executed from a text is: of `python -c`, of a configuration. Not the one line by which multiprocessing
    starts a process, nor the methods that Python's library makes of a class so.
    """
    if frame.file == "<string>" and (_MADE.search(frame.function) or (frame.function, frame.line) == ("<module>", 1)):
        return False
    library = _LIBRARY.search(frame.file) or _STDLIB_SHORT.search(frame.file)
    return not frame.native and not library and not _COMPREHENSION.search(frame.function)


def user_call(stack: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame of the user's own code of an operation's stack, or its innermost one; None of none.

    PyTorch notes its own frames as well: every collective is called in distributed_c10d.py.
    """
    return next(filter(is_user_frame, reversed(stack)), stack[-1] if stack else None)


def is_standard_frame(frame: Frame) -> bool:
    """Is the frame in Python's own library, such as at the foot of every thread?"""
    short = _STDLIB_SHORT.search(frame.file) is not None and not frame.file.startswith("torch/")
    return short or _STANDARD.search(frame.file) is not None


def runs(frames: Sequence[Frame], function: str) -> bool:
    """Is a function of this name on a stack?"""
    return any(frame.function.rpartition(".")[2] == function for frame in frames)
