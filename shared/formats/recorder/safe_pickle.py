"""Unpickle a job's dump without trusting it.

A pickle is a program. Two barriers protect us: a scan that lets only the opcodes of plain data through and
bounds the memo (one forged `LONG_BINPUT` would make the C unpickler fill gigabytes), and an unpickler
that finds no globals. Opcode numbers and operand sizes: CPython's Lib/pickletools.py.

Shared references can still make a small pickle describe a vast structure; code that walks the result needs
its own limits.
"""

import io
import pickle
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from shared.errors import UnreadableDump, quoted

_CONTAINERS = rb"\]})(\x85\x86\x87tlduaes0N\x88\x89"  # lists, dicts, tuples, MARK, SETITEMS, None, bools
_LONG_BINPUT = rb"r..[\x00-\x0f]\x00"  # its index must stay below 2**20
_GETS = rb"h.h.h.|h.|j.{4}"  # BINGET, LONG_BINGET
_NUMBERS = (
    rb"K.|M..|J.{4}|G.{8}"  # BININT1, BININT2, BININT, BINFLOAT
    rb"|\x8a(?:\x08.{8}|\x00|\x01.|\x02..|\x03.{3}|\x04.{4}|\x05.{5}|\x06.{6}|\x07.{7}|\x09.{9})"  # LONG1
)
# Opcodes with operands of fixed size, matched in runs: what Python's own pickler writes most comes first.
_FIXED = re.compile(
    rb"(?:%b|[%b\x94]++(?:%b)?+|q.|%b|\x80[\x00-\x05]|%b|\x95.{8})*+"  # MEMOIZE, BINPUT, PROTO, FRAME
    % (_GETS, _CONTAINERS, _LONG_BINPUT, _NUMBERS, _LONG_BINPUT),
    re.DOTALL,
)
_WITHOUT_MEMO = re.compile(rb"(?:%b|[%b]++|%b|\x80.)*+" % (_GETS, _CONTAINERS, _NUMBERS), re.DOTALL)
_WEIGHTS = ((b"])}ld\x85\x86\x87t", 72), (b"MJG\x8a", 40), (b"XU\x8c", 72), (b"(hqjrKN\x94\x88\x89", 8))
"""What opcodes make, in bytes: lists, dicts and tuples; numbers; texts; places of what is made or there already. What
is in operands counts too, which is little."""
_MOST_MEMORY = 3 * 1024 * 1024 * 1024
_SMALL = 8 * 1024 * 1024
"""What cannot take half of it."""
_PIECE = 1024 * 1024
"""What is weighed at once, and stays in the cache of a core."""
_STOP = ord(".")
_TEXT = {ord("X"): 4, 0x8C: 1, ord("U"): 1}
"""BINUNICODE, SHORT_BINUNICODE and SHORT_BINSTRING: bytes of their length field."""
MEMOIZE, FRAME = 0x94, 0x95
PUTS = {ord("q"): 2, ord("r"): 5}
"""BINPUT and LONG_BINPUT: bytes with their operand, the place."""
FRAME_BYTES = 9
_SIZES = PUTS | {FRAME: FRAME_BYTES}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnreadableDump(f"the pickle asks for {quoted(module)}.{quoted(name)}: only plain data is read")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise UnreadableDump("the pickle asks for a persistent object: only plain data is read")


def load_plain(data: bytes) -> Any:
    """Return the value in `data` if it is made of None, bool, int, float, str, list, tuple and dict alone.

    Raises UnreadableDump for anything else: other opcodes, truncation, trailing rubbish inside an operand.
    """
    _check_opcodes(data)
    try:
        return _PlainUnpickler(io.BufferedReader(io.BytesIO(data), 1 << 20), encoding="latin-1").load()
    except UnreadableDump:
        raise
    except Exception as error:  # the C unpickler raises nearly every built-in error on malformed input
        raise UnreadableDump(f"not a readable pickle: {type(error).__name__}: {error}") from error


def _cost(data: bytes) -> int:
    """Return how much memory a pickle takes at most, by how often each opcode may occur in it."""
    pieces = (data[begin : begin + _PIECE] for begin in range(0, len(data), _PIECE))
    return 2 * len(data) + sum(weight * _count(piece, opcodes) for piece in pieces for opcodes, weight in _WEIGHTS)


def _count(piece: bytes, opcodes: bytes) -> int:
    """Count bytes that are one of these; to leave them out costs a seventh of counting each by itself."""
    return len(piece) - len(piece.translate(None, opcodes))


def _check_opcodes(data: bytes) -> None:
    if len(data) > _SMALL and _cost(data) > _MOST_MEMORY:
        raise UnreadableDump(f"the pickle of {len(data)} bytes would take more than {_MOST_MEMORY} bytes of memory")
    for position in _unmatched(data, _FIXED):
        if data[position] == _STOP:
            return
        raise UnreadableDump(
            f"the pickle holds opcode 0x{data[position]:02x} at byte {position}: only plain data is read"
        )
    raise UnreadableDump(f"the pickle is cut off after {len(data)} bytes")


def other_opcodes(data: bytes) -> Iterator[int]:
    """Yield where opcodes begin that make no plain value: those that write to the memo, FRAME and STOP."""
    return _unmatched(data, _WITHOUT_MEMO)


def _unmatched(data: bytes, run: re.Pattern[bytes]) -> Iterator[int]:
    """Yield where opcodes begin that are neither texts nor in runs like that."""
    position = 0
    while True:
        found = run.match(data, position)
        position = position if found is None else found.end()
        if position >= len(data):
            return
        opcode = data[position]
        width = _TEXT.get(opcode)
        if width is None:
            yield position
            position += _SIZES.get(opcode, 1)
        else:
            position += 1 + width + int.from_bytes(data[position + 1 : position + 1 + width], "little")
