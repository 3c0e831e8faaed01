"""Views and pages of kept diagnoses. What was seen then never changes, and is asked for again and again."""

import asyncio
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable

from collector.concurrency.threads import run_in_thread

_MOST_BYTES = 64 * 1024 * 1024
"""Compressed. What is larger alone is made for each question."""


class KeptViews:
    """The latest of them. One is made at a time: that of a large job takes the processor for seconds."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._made: OrderedDict[Hashable, bytes] = OrderedDict()
        self._bytes = 0
        self._turn = asyncio.Lock()

    async def get(self, key: Hashable, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return what `make` has made under this key, before or now. Raises what it raises."""
        if key not in self._made:
            async with self._turn:
                if key not in self._made:
                    body = await make()
                    self._keep(key, await run_in_thread(zlib.compress, body, 1))
                    return body
        self._made.move_to_end(key)
        return await run_in_thread(zlib.decompress, self._made[key])

    def holds(self, key: Hashable) -> bool:
        """Has it been made before?"""
        return key in self._made

    def _keep(self, key: Hashable, packed: bytes) -> None:
        if len(packed) > self._most_bytes:
            return
        self._made[key] = packed
        self._bytes += len(packed)
        while self._bytes > self._most_bytes:
            _, dropped = self._made.popitem(last=False)
            self._bytes -= len(dropped)
