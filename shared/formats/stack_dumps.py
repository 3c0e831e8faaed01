"""Reads stack dumps of other tools into `Stacks`: py-spy's JSON and text, and the text of faulthandler and pystack.

Dumps come from files and from other people's processes: sizes are bounded, and whatever makes no sense
raises UnreadableDump. All but pystack print innermost frames first; here they are reversed once.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from shared.errors import UnreadableDump, quoted
from shared.json_bounds import TooCostly, load_json
from shared.value import whole
from shared.wire.stacks import Frame, Stacks, StackTable, Thread

LARGEST_DUMP = 32 * 1024 * 1024
_MOST_BYTES = 192 * 1024 * 1024
"""Of memory that a dump in JSON may take while it is read: a hundred thousand frames."""
_MOST_LINES = 1_000_000
MOST_THREADS = 4096
DEEPEST_STACK = 1024
_MOST_BARE = 8 * DEEPEST_STACK
"""Of a deeper stack the outermost and the innermost half are kept."""
LONGEST_NAME = 500
"""pybind11 makes function names of kilobytes; more than this does not help a reader."""

# Thread 4242 (idle): "MainThread"        Thread 0x7F31C0A1 (active+gil): "Thread-3 (_pin_memory_loop)"
PYSPY_THREAD = re.compile(r'Thread (0x[0-9A-Fa-f]+|\d+)(?:\.\d+)? \(([a-z+ ]{1,40})\)(?:: "(.{0,300})")?\s*')
#     all_reduce (torch/distributed/distributed_c10d.py:3252)        read (libc.so.6)
PYSPY_FRAME = re.compile(r"\s{2,}(\S.{0,2000}?) \(([^()]{1,1000}?)(?::(\d{1,9}))?\)\s*")
# libc.so.6        libtorch_cuda.so        ProcessGroupNCCL.cpp        ??        [vdso]        [kernel.kallsyms]
_NATIVE = re.compile(r"\.so\b|\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|S|s)$|^\?\?$|^\[[\w.]{1,40}\]$|^$")
# Process 4242: python train.py
_PYSPY_PROCESS = re.compile(r"Process (\d{1,10}): .*")
# Thread 0x00007f4217091b80 (most recent call first):
# Current thread 0x00007f4217091b80 [python3] (most recent call first):
FAULT_THREAD = re.compile(r"(?:Current )?[Tt]hread 0x([0-9a-f]{1,16})(?: \[.{0,100}\])? \(most recent call first\):\s*")
#   File "/srv/train.py", line 32 in main
_FAULT_FRAME = re.compile(r'\s+File "(.{1,1000}?)", line (\d{1,9}|\?{3}) in (.{1,500}?)\s*')
# Traceback for thread 4242 (python3) [Has the GIL] (most recent call last):
PYSTACK_THREAD = re.compile(
    r"Traceback for thread (\d{1,10}) (?:\(.{0,100}\) )?\[(.{0,200})\] \(most recent call last\):\s*"
)
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}m")
#     (Python) File "/srv/train.py", line 32, in main
_PYSTACK_FRAME = re.compile(r'\s+\((Python|C)\) File "(.{1,1000}?)", line (\d{1,9}), in (.{1,2000}?)\s*')
# wait (inlined) (/usr/lib/libc.so.6)
_IN_LIBRARY = re.compile(r"(.{1,2000}?)(?: \(inlined\))? \(([^()]{1,1000})\)")

# Thread 3 (LWP 4787 "python"):        Thread 1 (Thread 0x7f31c0a1 (LWP 4784) "python"):        Thread 2 (LWP 4786):
_GDB_THREAD = re.compile(
    r'Thread \d{1,6} \((?:Thread 0x[0-9a-f]{1,16} \()?(?:LWP|process) (\d{1,10})\)?(?: "(.{0,100})")?\):\s*'
)
# #12 0x00007f31c0a1 in c10d::TCPStore::wait (this=..., keys=...) at TCPStore.cpp:512
_GDB_FRAME = re.compile(r"#\d{1,6} {1,6}(?:0x[0-9a-f]{1,16} in )?(\S.*)")


def parse_pyspy_json(data: bytes, *, native: bool, paused: bool) -> Stacks:
    """Read the output of `py-spy dump --json`; whether native or paused it does not say itself."""
    threads = _load_json(data)
    if not isinstance(threads, list) or not all(isinstance(t, dict) for t in threads):
        raise UnreadableDump(f"not a py-spy dump: {quoted(data)}")
    table = StackTable()
    try:
        read = tuple(_json_thread(thread, table) for thread in threads[:MOST_THREADS])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableDump(f"py-spy dump with an invalid thread: {error!r}") from error
    pid = next((t["pid"] for t in threads if isinstance(t.get("pid"), int)), None)
    return Stacks(pid=pid, native=native, paused=paused, frames=table.frames, threads=read)


def parse_pyspy_text(text: str) -> Stacks:
    """Read what `py-spy dump` prints for people; frames without any thread are the main thread's."""
    table = StackTable()
    threads = [
        Thread(
            tid=int(header[1], 0),
            name=header[3] or "",
            active=header[2].startswith("active"),
            holds_gil="gil" in header[2],
            frames=_indices(list(filter(None, map(_text_frame, body))), table),
        )
        for header, body in _sections(text, PYSPY_THREAD)
    ]
    if not threads and (bare := list(filter(None, map(_text_frame, text[:LARGEST_DUMP].split("\n"))))):
        threads = [Thread(name="MainThread", frames=_indices(bare[:_MOST_BARE], table))]
    process = next((m for m in map(_PYSPY_PROCESS.fullmatch, text[:10_000].splitlines()) if m), None)
    native = any(frame.native for frame in table.frames)
    return _found(text, "py-spy dump", threads, table, native=native, pid=None if process is None else int(process[1]))


def parse_faulthandler(text: str) -> Stacks:
    """Read what `faulthandler.dump_traceback` prints.

    Its ids are pthread handles, not kernel thread ids, so `tid` stays None. It prints the newest thread
    first, hence the last one is the main thread and is named so.
    """
    table, threads = StackTable(), []
    for _header, body in _sections(text, FAULT_THREAD):
        found = (m for m in map(_FAULT_FRAME.fullmatch, body) if m)
        frames = [Frame(_cut(m[3]), _cut(m[1]), 0 if m[2].startswith("?") else int(m[2])) for m in found]
        threads.append(Thread(frames=_indices(frames, table)))
    threads = [*threads[:-1], *(last.model_copy(update={"name": "MainThread"}) for last in threads[-1:])]
    return _found(text, "faulthandler dump", threads, table, paused=False)


def parse_pystack_text(text: str, *, pid: int | None = None, paused: bool = False) -> Stacks:
    """Read what `pystack remote` prints; it names no threads, and the outermost frame comes first."""
    table, threads = StackTable(), []
    for header, body in _sections(text, PYSTACK_THREAD):
        found = (m for m in (_PYSTACK_FRAME.fullmatch(line) for line in body if len(line) < 4000) if m)
        frames = [_pystack_frame(m[1] == "C", m[2], int(m[3]), m[4]) for m in found]
        indices = _indices(frames[::-1], table)
        threads.append(Thread(tid=int(header[1]), holds_gil="Has the GIL" in header[2], frames=indices))
    return _found(text, "pystack dump", threads, table, pid=pid, paused=paused)


def _pystack_frame(native: bool, file: str, line: int, function: str) -> Frame:
    """Name the library of a native frame, as py-spy does, and not the source it was once built from."""
    match = _IN_LIBRARY.fullmatch(function) if native else None
    if match is not None:
        function, file, line = match[1], match[2], 0
    return Frame(_cut(function), _cut(file), line, native)


def _found(text: str, what: str, threads: Sequence[Thread], table: StackTable, **more: Any) -> Stacks:
    if not threads:
        raise UnreadableDump(f"no thread in what should be a {what}: {quoted(text)}")
    return Stacks(frames=table.frames, threads=tuple(threads), **more)


def parse_pystack_dump(text: str) -> Stacks:
    """Read what people keep of pystack, colours and all. Its main thread is the one that `threading` did not begin."""
    stacks = parse_pystack_text(_COLOURS.sub("", text))
    main = next((thread for thread in stacks.threads if not _is_begun(stacks.stack(thread))), stacks.threads[-1])
    native = any(frame.native for frame in stacks.frames)
    return stacks.model_copy(update={"pid": main.tid, "native": native})


def _is_begun(frames: Iterable[Frame]) -> bool:
    return next((frame.function for frame in frames if not frame.native), "_bootstrap") == "_bootstrap"


def parse_gdb_text(text: str, *, pid: int | None = None) -> Stacks:
    """Read what gdb's `thread apply all backtrace` prints with arguments left out."""
    table = StackTable()
    threads = [
        Thread(tid=int(h[1]), name=h[2] or "", frames=_indices(list(filter(None, map(_gdb_frame, body))), table))
        for h, body in _sections(text, _GDB_THREAD)
    ]
    return _found(text, "gdb backtrace", threads, table, pid=pid, native=True)


def _gdb_frame(line: str) -> Frame | None:
    """Read `NAME (ARGUMENTS) at FILE:LINE` or `NAME (ARGUMENTS) from LIBRARY`; names hold brackets of their own."""
    match = _GDB_FRAME.fullmatch(line) if len(line) < 8000 else None
    if match is None:
        return None
    head, at, place = match[1].rpartition(") at ")
    if not at:
        head, from_, place = match[1].rpartition(") from ")
        place = place if from_ else ""
    name = (head or match[1].removesuffix(")")).rpartition(" (")[0] or match[1]
    file, _, number = place.rpartition(":") if at else (place, "", "")
    line_number = int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0
    return Frame(_cut(name), _cut(file), line_number, native=True)


def _load_json(data: bytes) -> Any:
    if len(data) > LARGEST_DUMP:
        raise UnreadableDump(f"a stack dump of {len(data)} bytes is larger than the {LARGEST_DUMP} we read")
    try:
        return load_json(data, most_bytes=_MOST_BYTES)
    except TooCostly as error:
        raise UnreadableDump(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise UnreadableDump(f"not a py-spy dump: {quoted(data)}") from error


def _json_thread(thread: dict[str, Any], table: StackTable) -> Thread:
    frames = [_json_frame(frame) for frame in thread["frames"]]
    return Thread(
        tid=thread.get("os_thread_id"),
        name=_cut(thread.get("thread_name") or ""),
        active=thread.get("active"),
        holds_gil=thread.get("owns_gil"),
        frames=_indices(frames, table),
    )


def _json_frame(frame: dict[str, Any]) -> Frame:
    module, line = frame.get("module"), frame.get("line", 0)
    file = frame.get("filename") or module or ""
    if not isinstance(line, int) or not isinstance(file, str):
        raise TypeError("a frame without a proper file or line")
    native = module is not None or _NATIVE.search(file) is not None
    return Frame(_cut(frame["name"]), _cut(file), max(line, 0), native=native)


def _sections(text: str, header: re.Pattern[str]) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Cut `text` into threads: each header line with the lines that follow it."""
    if len(text) > LARGEST_DUMP:
        raise UnreadableDump(f"a stack dump of {len(text)} characters is larger than the {LARGEST_DUMP} we read")
    if text.count("\n") > _MOST_LINES:
        raise UnreadableDump(f"a stack dump of more than {_MOST_LINES} lines")
    current: tuple[re.Match[str], list[str]] | None = None
    count = 0
    for line in text.split("\n"):  # not splitlines, for which a dozen characters end a line
        match = header.fullmatch(line) if len(line) < 1000 else None
        if match is None:
            if current is not None:
                current[1].append(line)
            continue
        if current is not None:
            yield current
        current, count = (match, []), count + 1
        if count > MOST_THREADS:
            return
    if current is not None:
        yield current


def _text_frame(line: str) -> Frame | None:
    match = PYSPY_FRAME.fullmatch(line) if len(line) < 4000 else None
    if match is None:
        return None
    file = match[2]
    native = _NATIVE.search(file) is not None
    return Frame(_cut(match[1]), _cut(file), int(match[3] or 0), native=native)


def _indices(innermost_first: list[Frame], table: StackTable) -> tuple[int, ...]:
    outermost_first: Iterable[Frame] = reversed(innermost_first)
    if len(innermost_first) > DEEPEST_STACK:
        half = DEEPEST_STACK // 2
        outermost_first = [*innermost_first[:-half:-1], *innermost_first[half::-1]]
    return tuple(table.add(frame) for frame in outermost_first)


def _cut(name: str) -> str:
    name = whole(name)
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
