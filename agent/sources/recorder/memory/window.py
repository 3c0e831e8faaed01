"""Chooses the entries of a flight record that a plain look needs, before any of their pointers is followed.

These are the last few of each group and lane, and all that are not completed, as `Trace.windowed` keeps them. It cuts
what is copied once more, exactly: here an entry is left out only where nothing can depend on it.

1. It is completed by its plain fields; Gloo's are where they are retired, which takes the name of the operation.
2. Newer ones of its lane are enough, and one of them is completed: what is completed tells of what came before it.
3. The entry of its group before it is not of the same operation. Else it ends a batch, whose parts are as far as it is
   (shared/formats/recorder/coalesced.py).
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from agent.proc.memory.process_memory import Unreadable
from agent.sources.recorder.memory.entries import EntryReader, FoundEntry, Scalars

_GLOO = "gloo:"


def needed(entries: Iterable[FoundEntry], reader: EntryReader, window: int) -> Iterator[FoundEntry]:
    """Iterate over those of `entries`, newest first, that a look at the last `window` of each lane needs."""
    newer: dict[tuple[int, int], int] = {}
    has_completed: set[tuple[int, int]] = set()
    for entry, older in _with_older(entries):
        lane = entry.plain.pg_id, entry.plain.is_p2p
        newer[lane] = newer.get(lane, 0) + 1
        if newer[lane] > window or lane not in has_completed:
            completed = _is_completed(entry, reader)
            is_alone = older is None or _operation(entry.plain) != _operation(older.plain)
            if completed and lane in has_completed and newer[lane] > window and is_alone:
                continue
            has_completed |= {lane} if completed else set()
        yield entry


def _with_older(entries: Iterable[FoundEntry]) -> Iterator[tuple[FoundEntry, FoundEntry | None]]:
    """Return entries, newest first, each with the one of its group that was issued before it."""
    found: list[tuple[FoundEntry, FoundEntry | None]] = []
    last: dict[int, FoundEntry] = {}
    for entry in reversed(list(entries)):
        found.append((entry, last.get(entry.plain.pg_id)))
        last[entry.plain.pg_id] = entry
    return reversed(found)


def _operation(plain: Scalars) -> tuple[int, int, int]:
    return plain.pg_id, plain.collective_seq, plain.p2p_seq


def _is_completed(entry: FoundEntry, reader: EntryReader) -> bool:
    """Return step 1; what cannot be read is not."""
    plain = entry.plain
    if plain.has_completed or not plain.retired or plain.has_duration:
        return bool(plain.has_completed or plain.retired)
    with suppress(Unreadable):
        return reader.operation(entry).startswith(_GLOO)
    return False
