"""The repeated entries of a pickled dump, read as bytes: fast enough for thousands of ranks.

A job makes the same few calls over and over, and PyTorch's own pickler writes strings and frames once: entries of one
call differ only in their numbers and times. Here such entries are taken out of a pickle before anything unpickles it.
The first of a kind stays in place as `(entry, kind)`, each later one becomes the bare number of its kind, and their
numbers are kept as columns. The first of a kind then shows what the others hold beside their numbers.

The layout: `dump_entries` in torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, the opcodes: `Pickler` in
torch/csrc/jit/serialization/pickler.cpp. What Python's own picklers write beside these: `pickle_memo.py`. An entry in
any other shape stays where it is, and nothing is lost but time.
This is no protection against hostile bytes: the resulting pickle is as untrusted as the input.
"""

import re
import struct
import sys
from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from shared.errors import UnreadableDump
from shared.formats.recorder.fast_path_skeletons import TIME_BYTES, Skeletons
from shared.formats.recorder.fields import MOST_RECORDS
from shared.formats.recorder.pickle_memo import KEPT, EqualButForPlaces, OddPlaces, with_places
from shared.formats.recorder.safe_pickle import MEMOIZE

_GET = rb"(?:h.|j.{4})"  # BINGET, LONG_BINGET: a string or a frame that was written before
_NUMBER = rb"(?:K.|M..|J.{4}|\x8a\x08.{8})"  # BININT1, BININT2, BININT, LONG1 of eight bytes
_FLAG = rb"[\x88\x89]"  # NEWTRUE, NEWFALSE
_TIME = rb"(?:\x8a\x08(.{8})|N)"  # LONG1 of eight bytes, NONE
_LIST = rb"\]%b(?:\((?:%%b)*+e|(?:%%b)a)?+" % KEPT  # EMPTY_LIST, and MARK ... APPENDS or, of one, APPEND
_TEXTS = _LIST % (_GET, _GET)
_SIZES = _LIST % (2 * (_LIST % (_NUMBER, _NUMBER),))

# The first group is all of it. Four others hold sequences and times, and the bytes between them identify the kind.
_ENTRY = re.compile(
    b"".join(
        (
            rb"(\}%b\((%b%b%b)%b" % (KEPT, _GET, _TEXTS, _GET, _NUMBER),  # frames, record_id
            rb"(%b%b" % (_GET, _NUMBER),  # pg_id
            rb"%b%b%b\x86%b" % (_GET, _GET, _GET, KEPT),  # process_group, TUPLE2
            rb"(?:%b%b%b%b)?+" % (_GET, _GET, _GET, _GET),  # thread_name, thread_id
            rb"%b)(%b" % (_GET, _NUMBER),  # collective_seq_id
            rb"%b%b" % (_GET, _NUMBER),  # p2p_seq_id
            rb"%b%b)" % (_GET, _NUMBER),  # op_id
            rb"(%b%b" % (_GET, _GET),  # profiling_name
            rb"%b)\x8a\x08(.{8})" % _GET,  # time_created_ns
            rb"(?:(%b)G(.{8}))?+" % _GET,  # duration_ms, BINFLOAT
            rb"(%b%b%b%b" % (_GET, _SIZES, _GET, _TEXTS),  # input_sizes, input_dtypes
            rb"%b%b%b%b" % (_GET, _SIZES, _GET, _TEXTS),  # output_sizes, output_dtypes
            rb"%b%b" % (_GET, _GET),  # state
            rb"%b)%b" % (_GET, _TIME),  # time_discovered_started_ns
            rb"(%b)%b" % (_GET, _TIME),  # time_discovered_completed_ns
            rb"(%b%b%b%b%b%b)u)" % (_GET, _FLAG, _GET, _NUMBER, _GET, _FLAG),  # retired, timeout_ms, is_p2p, SETITEMS
        )
    ),
    re.DOTALL,
)
_FIVE = re.compile(rb"%b|%b" % (_NUMBER, _GET), re.DOTALL)

_WHOLE = 1
_KIND = (2, 3, 5, 7, 9, 11, 13)
_SEQUENCES = 4
_TIMES = (6, 10, 12)
"""Of creation, start and completion."""
_DURATION_MS = 8
_STEP = _ENTRY.groups + 1
"""`split` yields the bytes before an entry and then its groups."""

_BEGIN = ("frames", "record_id", "pg_id", "process_group")
_THREAD = ("thread_name", "thread_id")
_CALL = ("collective_seq_id", "p2p_seq_id", "op_id", "profiling_name", "time_created_ns")
_DURATION = ("duration_ms",)
_TENSORS = ("input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
_FATE = ("state", "time_discovered_started_ns", "time_discovered_completed_ns", "retired", "timeout_ms", "is_p2p")
_LAYOUTS = frozenset(
    (*_BEGIN, *thread, *_CALL, *duration, *_TENSORS, *_FATE) for thread in ((), _THREAD) for duration in ((), _DURATION)
)
"""The keys of an entry in their order, by version and by whether the operation was timed."""

_MARK = ord("(")
_Kind = tuple[bytes | None, ...]
_UNSET = bytes(TIME_BYTES)
_SKELETONS = Skeletons()
"""A cache, as good as empty: the next dump is likely of a rank that runs the same program."""


class Repeats:
    """What was taken out of one dump; nothing where the dump is of any other shape, such as JSON."""

    def __init__(self) -> None:
        self._sequences: list[bytes] = []
        self._times: tuple[array[int], ...] = (array("q"),) * len(_TIMES)
        self._firsts: list[int] = []
        """Of each kind, the index of its first entry among those that `unfold` returns."""
        self._alone: list[int] = []
        """Positions of the records that were not taken out, ascending."""

    def __len__(self) -> int:
        """How many entries were taken out, the first of each kind included."""
        return len(self._sequences)

    def take_out(self, data: bytes) -> bytes:
        """Return the pickle with `(entry, kind)` in the place of each first entry, `kind` in that of the others.

        Raises UnreadableDump where there are more than MOST_RECORDS.
        """
        first = _ENTRY.search(data)
        if first is None:
            return data
        if data[first.start() + 1] != _MARK:
            return self._take_out_of_python_s(data, counts=data[first.start() + 1] == MEMOIZE)
        before, body = data[: first.start()], data[first.start() :]
        skeleton = _SKELETONS.find(body)
        if skeleton is not None:
            self._sequences, self._times = skeleton.sequences, skeleton.times(body)
            return before + skeleton.kept(body)
        pieces = self._split(body)
        if _SKELETONS.wants(body):
            self._keep_skeleton(body, pieces)
        return before + b"".join(map(b"".join, pieces))

    def _take_out_of_python_s(self, data: bytes, *, counts: bool) -> bytes:
        """The same of a pickle whose containers are in the memo; `counts`: by their number."""
        try:
            if counts:
                return b"".join(with_places(self._split(data)))
            return b"".join(map(b"".join, self._split(data, key=EqualButForPlaces().key)))
        except OddPlaces:
            self._sequences = []
            return data

    def _split(self, body: bytes, key: Callable[[_Kind], Hashable] | None = None) -> list[tuple[bytes, bytes]]:
        """Read all entries of `body`; return what is left: the bytes before each entry, and what replaces it.

        Entries of one kind have the same opcodes between their numbers and times, or the same `key` of these.
        """
        parts = _ENTRY.split(body, MOST_RECORDS + 1)
        self._sequences = parts[_SEQUENCES::_STEP]
        if len(self) > MOST_RECORDS:
            raise UnreadableDump(f"more than {MOST_RECORDS} entries")
        self._times = tuple(_times(parts[group::_STEP]) for group in _TIMES)
        opcodes: Iterable[_Kind] = zip(*(parts[group::_STEP] for group in _KIND), strict=True)
        kinds: Iterable[Hashable] = opcodes if key is None else map(key, opcodes)
        stand_ins: dict[Hashable, bytes] = {}
        pieces: list[tuple[bytes, bytes]] = []
        for before, entry, kind in zip(parts[:-1:_STEP], parts[_WHOLE::_STEP], kinds, strict=True):
            stand_in = stand_ins.get(kind)
            if stand_in is None:
                stand_in = stand_ins[kind] = b"J" + struct.pack("<i", len(stand_ins))
                pieces.append((before, entry + stand_in + b"\x86"))
            else:
                pieces.append((before, stand_in))
        return [*pieces, (parts[-1], b"")]

    def _keep_skeleton(self, body: bytes, pieces: Sequence[tuple[bytes, bytes]]) -> None:
        entries = list(_ENTRY.finditer(body))
        times = [tuple(map(entry.start, _TIMES)) for entry in entries]
        durations = [entry.start(_DURATION_MS) for entry in entries if entry[_DURATION_MS] is not None]
        ends = (*(entry.start() for entry in entries), len(body))
        left: list[bytes | slice] = []
        in_common = bytearray()
        for end, (gap, stand_in) in zip(ends, pieces, strict=True):
            if gap:
                left += (bytes(in_common), slice(end - len(gap), end))
                in_common.clear()
            in_common += stand_in
        _SKELETONS.keep(body, times, durations, self._sequences, [*left, bytes(in_common)])

    def unfold(self, items: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """Return the entries that are there, and for each record of the dump the index of the entry that describes it.

        Raises UnreadableDump where `items` are not what `take_out` makes of PyTorch's layout.
        """
        entries: list[Any] = []
        order: list[int] = []
        for position, item in enumerate(items):
            if type(item) is int and 0 <= item < len(self._firsts):
                order.append(self._firsts[item])
                continue
            order.append(len(entries))
            if type(item) is tuple and len(self):
                item = self._first(item, len(entries))
            else:
                self._alone.append(position)
            entries.append(item)
        if len(order) - len(self._alone) != len(self):
            raise UnreadableDump("entries where none should be")
        return entries, order

    def weave(self, own: Sequence[tuple[int, ...]], order: Sequence[int]) -> "list[array[int]]":
        """Return the sequences, op ids and times of all records as columns, those of entries left alone from `own`.

        Raises UnreadableDump where the fields change places within the dump.
        """
        return [
            self._woven(repeated, [own[order[position]][place] for position in self._alone])
            for place, repeated in enumerate(self._columns())
        ]

    def _woven(self, repeated: "array[int]", alone: Sequence[int]) -> "array[int]":
        woven = array("q")
        taken = 0
        for position, number in zip(self._alone, alone, strict=True):
            until = taken + position - len(woven)
            woven += repeated[taken:until]
            woven.append(number)
            taken = until
        woven += repeated[taken:]
        return woven

    def _columns(self) -> "tuple[array[int], ...]":
        if not self:
            return (array("q"),) * (3 + len(_TIMES))
        *sequences, keys = zip(*map(_sequences, self._sequences), strict=True)
        if len(set(keys)) > 1:
            raise UnreadableDump("the order of its fields changes")
        return (*(array("q", column) for column in sequences), *self._times)

    def _first(self, item: tuple[Any, ...], index: int) -> Any:
        entry, kind = item if len(item) == 2 else (None, None)
        if kind != len(self._firsts) or not isinstance(entry, dict) or tuple(entry) not in _LAYOUTS:
            raise UnreadableDump("its entries have unexpected fields")
        self._firsts.append(index)
        return entry


@lru_cache(maxsize=16_384)
def _sequences(opcodes: bytes) -> tuple[int, int, int, bytes]:
    """Read the two sequences and the op id, and the keys between them. Ranks of one job count alike: many ask again."""
    collective, first_key, p2p, second_key, op_id = _FIVE.findall(opcodes)
    return _number(collective), _number(p2p), _number(op_id), first_key + second_key


def _number(opcode: bytes) -> int:
    operand = opcode[2:] if opcode[:1] == b"\x8a" else opcode[1:]
    return int.from_bytes(operand, "little", signed=opcode[:1] in (b"J", b"\x8a"))


def _times(column: list[bytes | None]) -> "array[int]":
    times = array("q", b"".join([_UNSET if time is None else time for time in column]))
    if sys.byteorder == "big":
        times.byteswap()
    return times
