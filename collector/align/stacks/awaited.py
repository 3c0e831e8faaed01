"""What the thread that stands for a rank waits for, by its Python's memory: which, and in words.

A key that is awaited in a store is not set there. Whoever serves the store knows that, which may be another rank, or
the launcher of one: its word is joined to that of who waits by the whole key, with all prefixes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from collector.align.roster import RankView
from collector.align.stacks.user_frames import is_user_frame
from shared.plural import counted, either
from shared.wire.stacks import Awaited, Frame, OfProcesses, ServedKey, Stacks

_MOST_KEYS = 3
_UNSET = (" (nobody has set it)", " (nobody has set them)")
_OWED = {
    "barrier": "that others have not reached",
    "condition": "that nobody has notified",
    "event": "that nobody has set",
    "lock": "that another process holds, or has ended with",
    "semaphore": "that nobody has released",
}
"""By whom it is owed, or who has taken it, a semaphore does not tell."""
_SLASHES = re.compile("/+")


class ThreadWait(NamedTuple):
    """What the thread that stands for a rank waits for."""

    awaited: Awaited
    unset: tuple[ServedKey, ...] = ()
    """What the store's own process tells of its keys; empty: of one of them it tells nothing, or was not seen."""

    @property
    def of_any_thread(self) -> "ThreadWait":
        """The same, whichever thread of whichever rank waits so."""
        return self._replace(awaited=self.awaited.model_copy(update={"tid": 0}))

    @property
    def in_store(self) -> bool:
        """Does it wait for others by a store, and not for something in its own process?"""
        return self.awaited.kind in ("store_key", "store_answer")

    @property
    def user(self) -> Frame | None:
        """The user's innermost line among the coroutines: no thread's stack shows these."""
        return next((frame for frame in reversed(self.awaited.chain) if is_user_frame(frame)), None)

    @property
    def is_final(self) -> bool:
        """Can nothing end it? In its process Python runs no other thread, and one that it knew has ended."""
        empty = self.awaited.kind != "queue" or self.awaited.size == 0
        at_home = self.awaited.kind in ("queue", "future", "event") and not self.awaited.task
        return at_home and empty and self.awaited.alone and bool(self.awaited.ended) and not self.awaited.limited

    def __str__(self) -> str:
        """To stand after `is` or `are`."""
        awaited = self.awaited
        if awaited.kind == "store_answer":
            return f"waiting for the store to answer {awaited.call}() of {keys_in_words(awaited.keys)}"
        if awaited.kind == "store_key":
            unset = _UNSET[len(self.unset) > 1] if self.unset else ""
            return f"waiting for {keys_in_words(awaited.keys)}{unset}"
        more = "; ".join(filter(None, (awaited.task and f"task '{awaited.task}'", _ended(awaited))))
        return f"waiting {_what(awaited)}{more and f' ({more})'}"


def _what(awaited: Awaited) -> str:
    if awaited.shared is not None:
        return f"for {shared_in_words(awaited.shared)}"
    if awaited.thread is not None:
        return f"for thread '{awaited.thread.name}' to end"
    if awaited.kind == "task":
        return f"for what {awaited.call}() awaits"
    if awaited.root is not None:
        return f"in {awaited.call}() with group rank {awaited.root} as its root"
    held = {None: "", 0: " of an empty queue"}.get(awaited.size, f" of a queue of {awaited.size}")
    return f"in {awaited.call}(){held}"


def shared_in_words(shared: OfProcesses) -> str:
    """Name what processes share, and what is known of whoever owes it."""
    named = f"a multiprocessing {shared.kind}"
    if shared.mine:
        return f"{named} that its own process has taken"
    if shared.lone:
        return f"{named} that no other process has, or that ended with it"
    if shared.come is not None and shared.parties is not None:
        return f"{named} that {shared.come} of {counted(shared.parties, 'process')} have reached"
    return f"{named} {_OWED[shared.kind]}"


def _ended(awaited: Awaited) -> str:
    """Where other threads live, one of these may be awaited: that some have ended means little."""
    return f"{ended_in_words(awaited)}, and no other is left" if awaited.ended and awaited.alone else ""


def ended_in_words(awaited: Awaited) -> str:
    """Say which threads have ended that its functions have at hand."""
    names = ", ".join(f"'{name}'" for name in awaited.ended[:_MOST_KEYS])
    return f"its {either(awaited.ended, 'thread', 'threads')} {names} {either(awaited.ended, 'has', 'have')} ended"


def wait_of(view: RankView) -> ThreadWait | None:
    """Return it where the newest stacks show the thread at the very line at which its memory was read."""
    look = view.looks[-1] if view.looks else None
    if look is None or not isinstance(look.awaited, tuple) or not isinstance(look.stacks, Stacks):
        return None
    thread = view.thread_in(look.stacks)
    frames = () if thread is None else [f for f in look.stacks.stack(thread) if not f.native]
    if thread is None or not frames:
        return None
    same = (each for each in look.awaited if each.tid == thread.tid and _is_same(frames[-1], each.at))
    return next(map(ThreadWait, same), None)


def _is_same(shown: Frame, read: Frame) -> bool:
    """Stacks show functions with their class, and files of Python's own library and of packages without its place."""
    function, file = shown.function.rpartition(".")[2], f"/{shown.file}"
    return (function, shown.line) == (read.function, read.line) and f"/{read.file}".endswith(file)


def unset_keys(views: Iterable[RankView]) -> Mapping[str, ServedKey]:
    """Return what the processes of these ranks, and their launchers, tell of keys that are awaited in their stores."""
    return {_plain(each.key): each for view in views for look in view.looks[-1:] for each in look.served}


def told_by_store(wait: ThreadWait, unset: Mapping[str, ServedKey]) -> ThreadWait:
    """Return it with what the store tells, if it tells of all of these keys."""
    awaited = wait.awaited
    told = [unset.get(_plain(f"{awaited.prefix}/{key}")) for key in awaited.keys]
    return wait if None in told else wait._replace(unset=tuple(each for each in told if each is not None))


def keys_in_words(keys: Sequence[str]) -> str:
    """Name keys of a store."""
    named = ", ".join(f"'{key}'" for key in keys[:_MOST_KEYS])
    more = f" and {len(keys) - _MOST_KEYS} more" if keys[_MOST_KEYS:] else ""
    return f"store {'key' if len(keys) == 1 else 'keys'} {named}{more}"


def _plain(key: str) -> str:
    return _SLASHES.sub("/", key).strip("/")
