"""How much of what strangers send is held and taken apart at a time, by all looks together.

Every rank of a node may be hostile at once. So what they send is parsed one after the other, which costs nothing where
only one thread runs at a time anyway, and of large answers one is received at a time.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agent.deadline import Deadline
from agent.errors import Unavailable
from shared.missing import Reason

SMALL_ANSWER = 8 * 1024 * 1024
"""Any number of looks may hold an answer of this size: 15,000 operations of a flight record."""
_LARGE_SECONDS = 1.5
"""For a large answer to come: a rank that keeps it trickling keeps other large ones waiting."""

PARSED_BYTES = 192 * 1024 * 1024
"""Of memory that one answer may take while it is parsed. With `SMALL_ANSWER` of sixteen looks, what these keep and the
agent itself it stays below the MemoryMax of deploy/systemd/unhang-agent.service."""


class Memory:
    """The turns of one agent. Safe from many threads."""

    def __init__(self) -> None:
        self._large = threading.Lock()
        self._parsing = threading.Lock()

    @contextmanager
    def receiving(self) -> "Iterator[Receipt]":
        """Let an answer be received and parsed; a turn that it took for its size is given back in the end."""
        receipt = Receipt(self._large)
        try:
            yield receipt
        finally:
            receipt.close()

    @contextmanager
    def parsing(self, deadline: Deadline) -> Iterator[None]:
        """Wait for the turn to parse what a stranger has sent. Raises Unavailable."""
        if not self._parsing.acquire(timeout=deadline.left()):
            raise Unavailable(Reason.TIMED_OUT, "answers of other ranks were being read the whole time")
        try:
            yield
        finally:
            self._parsing.release()


class Receipt:
    """One answer while it comes in."""

    def __init__(self, turn: threading.Lock) -> None:
        self._turn = turn
        self._has_turn = False

    def grown(self, size: int, deadline: Deadline) -> Deadline:
        """Take note of how long the answer is by now; return when it is due. Raises Unavailable where others are."""
        if self._has_turn or size <= SMALL_ANSWER:
            return deadline
        if not self._turn.acquire(timeout=deadline.left()):
            told = f"it is larger than {SMALL_ANSWER} bytes, and other answers of such a size kept arriving"
            raise Unavailable(Reason.TIMED_OUT, told)
        self._has_turn = True
        return deadline.at_most(_LARGE_SECONDS)

    def close(self) -> None:
        """Give the turn back."""
        if self._has_turn:
            self._has_turn = False
            self._turn.release()
