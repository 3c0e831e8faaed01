"""Memory read by whole pages, each once: what a program allocates together lies together.

The thousands of small objects behind a flight record lie on some hundred pages. Read one by one they would cost four
microseconds each; so they cost less than one. What is read is a copy: a page that changes meanwhile is not read again.
"""

from agent.errors import Unavailable
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from shared.missing import Reason

_PAGE = 4096
_MOST_PAGES_OF_A_VALUE = 256


class PagedMemory:
    """A process's memory as it was when each page was first needed."""

    def __init__(self, memory: ProcessMemory, *, most_given: int) -> None:
        """`most_given`: bytes that are handed out. A hostile process may have a million pointers lead to one page."""
        self._memory = memory
        self._pages: dict[int, bytes] = {}
        self._left = most_given
        self._block, self._block_from, self._block_to = b"", 0, 0

    def read_block(self, address: int, size: int) -> bytes:
        """Return a large piece, up to four megabytes, which the next reads within it come from."""
        self._left -= size
        self._block = self._memory.read(address, size)
        self._block_from, self._block_to = address, address + size
        return self._block

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes, at most a megabyte. Raises Unreadable, Gone, or Unavailable past a limit."""
        self._left -= size
        if self._left < 0:
            raise Unavailable(Reason.REFUSED, f"process {self._memory.pid} has more in its records than is read")
        if self._block_from <= address and 0 <= size <= self._block_to - address:
            start = address - self._block_from
            return self._block[start : start + size]
        page, start = divmod(address, _PAGE)
        if 0 <= size <= _PAGE - start:
            known = self._pages.get(page)
            return self._within((self._page(page) if known is None else known)[start : start + size], address, size)
        last = (address + size - 1) // _PAGE
        if not 0 <= last - page < _MOST_PAGES_OF_A_VALUE:
            raise Unreadable(f"a value of {size} bytes at {address:#x} is larger than any that is expected")
        data = b"".join(self._page(number) for number in range(page, last + 1))
        return self._within(data[start : start + size], address, size)

    def word(self, address: int) -> int:
        """Return an unsigned 8-byte value. Raises as `read` does."""
        return int.from_bytes(self.read(address, 8), "little")

    def _page(self, number: int) -> bytes:
        data = self._pages.get(number)
        if data is None:
            data = self._pages[number] = self._memory.read_some(number * _PAGE, _PAGE)
        return data

    def _within(self, data: bytes, address: int, size: int) -> bytes:
        if len(data) != size:
            raise Unreadable(f"process {self._memory.pid} has no {size} bytes of memory at {address:#x}")
        return data
