"""What the thread that stands for a rank waits for, by its Python's memory: which, and in words.

A key that is awaited in a store is not set there. Whoever serves the store knows that, which may be another rank, or
the launcher of one: its word is joined to that of who waits by the whole key, with all prefixes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from collector.align.roster import RankView
from shared.wire.stacks import Awaited, ServedKey, Stacks

_MOST_KEYS = 3
_UNSET = (" (nobody has set it)", " (nobody has set them)")
_SLASHES = re.compile("/+")


class StoreWait(NamedTuple):
    """Keys that a rank waits for in a store."""

    awaited: Awaited
    unset: tuple[ServedKey, ...] = ()
    """What the store's own process tells of these keys; empty: of one of them it tells nothing, or was not seen."""

    @property
    def of_any_thread(self) -> "StoreWait":
        """The same, whichever thread of whichever rank waits so."""
        return self._replace(awaited=self.awaited.model_copy(update={"tid": 0}))

    def __str__(self) -> str:
        """To stand after `is` or `are`."""
        keys = keys_in_words(self.awaited.keys)
        if self.awaited.kind == "store_answer":
            return f"waiting for the store to answer {self.awaited.call}() of {keys}"
        return f"waiting for {keys}{_UNSET[len(self.unset) > 1] if self.unset else ''}"


def store_wait_of(view: RankView) -> StoreWait | None:
    """Return it where the newest stacks show the thread at the very line at which its memory was read."""
    look = view.looks[-1] if view.looks else None
    if look is None or not isinstance(look.awaited, tuple) or not isinstance(look.stacks, Stacks):
        return None
    thread = view.thread_in(look.stacks)
    frames = () if thread is None else [f for f in look.stacks.stack(thread) if not f.native][-1:]
    same = (each for each in look.awaited if thread is not None and each.tid == thread.tid and [each.at] == frames)
    return next(map(StoreWait, same), None)


def unset_keys(views: Iterable[RankView]) -> Mapping[str, ServedKey]:
    """Return what the processes of these ranks, and their launchers, tell of keys that are awaited in their stores."""
    return {_plain(each.key): each for view in views for look in view.looks[-1:] for each in look.served}


def told_by_store(wait: StoreWait, unset: Mapping[str, ServedKey]) -> StoreWait:
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
