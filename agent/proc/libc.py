"""What Python does not offer of libc."""

import ctypes
import os
from functools import cache
from typing import Any


def call_libc(function: str, *arguments: Any) -> int:
    """Call a function that returns a negative number where it fails. Raises OSError then."""
    done = int(getattr(_library(), function)(*arguments))
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
