"""A part that fails costs its own opinion, never the verdict: the one place that catches whatever is raised.

1. `costs_itself` marks the parts: a rule, a voter, a reader, a section of a rendering. `otherwise` says what is to be
   taken in its place, of the same arguments: nothing, or what it was to improve. Whatever only weakens or acquits is
   replaced by the weakest word, so that no failure can accuse anybody.
2. `failures_told` surrounds the whole: what failed inside becomes `Missing`, each once, for the answer to report.
3. Outside of it nothing is caught: nobody would tell.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import PurePath
from typing import ParamSpec, TypeVar, cast

from shared.missing import Missing, Reason
from shared.redaction.redact import redact

_MOST = 32
_LONGEST = 200

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_told: ContextVar[dict[Missing, None] | None] = ContextVar("failures", default=None)


@contextmanager
def failures_told() -> Iterator[dict[Missing, None]]:
    """2. Gather the failures of the parts that are called inside, here and for whoever surrounds this in turn."""
    found: dict[Missing, None] = {}
    outer = _told.get()
    token = _told.set(found)
    try:
        yield found
    finally:
        _told.reset(token)
        if outer is not None:
            outer.update(found)


def costs_itself(
    otherwise: Callable[..., object],
    *,
    part: str | Callable[..., str] = "",
    passing: tuple[type[Exception], ...] = (),
) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """1. Mark a function as one part, named by `part`, which may depend on its arguments, or else by its own name.

    `passing`: what is raised on purpose, for the caller.
    """

    def marked(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        name = part or function.__name__.strip("_").replace("_", " ")

        @wraps(function)
        def isolated(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
            try:
                return isolated.__wrapped__(*args, **kwargs)
            except Exception as error:
                if isinstance(error, (MemoryError, *passing)):
                    raise
                note(error, name if isinstance(name, str) else name(*args, **kwargs))
                return cast(_Result, otherwise(*args, **kwargs))

        isolated.__dict__["costs_itself"] = name
        return isolated

    return marked


def note(error: Exception, part: str) -> None:
    """Have a failure told; raises it where nobody is there to tell it."""
    found = _told.get()
    if found is None:
        raise error
    if len(found) < _MOST:
        found[failed(error, part)] = None


def failed(error: Exception, part: str) -> Missing:
    """Return what the answer says of a failure: which part, on what, and whose fault it is."""
    return Missing(source=part, reason=Reason.FAILED, detail=f"{_what(error)}; a fault of unhang: please report it")


def _what(error: Exception) -> str:
    said = redact(str(error)).replace("\n", " ")[:_LONGEST]
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        place, trace = f" at {PurePath(code.co_filename).name}:{trace.tb_lineno} in {code.co_name}", trace.tb_next
    return f"{type(error).__name__}{f' ({said})' if said else ''}{place}"
