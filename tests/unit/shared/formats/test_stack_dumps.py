"""Stack dumps of other tools, real in form and broken in many ways."""

import json
from typing import Any

import pytest

from shared.errors import UnreadableDump
from shared.formats.stack_dumps import (
    DEEPEST_STACK,
    LONGEST_NAME,
    parse_faulthandler,
    parse_pyspy_json,
    parse_pyspy_text,
    parse_pystack_dump,
    parse_pystack_text,
)
from shared.wire.stacks import Frame


def frame(name: str, line: int = 1, **more: Any) -> dict[str, Any]:
    """Return one frame as py-spy writes it."""
    plain = {"name": name, "filename": f"/srv/{name}.py", "module": None, "short_filename": f"{name}.py", "line": line}
    return {**plain, "locals": None, "is_entry": False, **more}


def dump(*threads: dict[str, Any]) -> bytes:
    """Return a dump of the given threads as py-spy writes it."""
    common = {"pid": 42, "thread_id": 140, "thread_name": "MainThread", "os_thread_id": 42, "active": False}
    return json.dumps([{**common, "owns_gil": False, "process_info": None, **thread} for thread in threads]).encode()


def test_frames_are_turned_round_once() -> None:
    """py-spy says the innermost first, we keep the outermost first."""
    stacks = parse_pyspy_json(dump({"frames": [frame("inner", 3), frame("outer", 9)]}), native=False, paused=True)
    assert stacks.main is not None
    assert [str(f) for f in stacks.stack(stacks.main)] == ["outer (/srv/outer.py:9)", "inner (/srv/inner.py:3)"]
    assert (stacks.pid, stacks.native, stacks.paused) == (42, False, True)


def test_threads_share_a_table_of_frames() -> None:
    """A frame that many threads are in is kept once."""
    same = [frame("read"), frame("run")]
    stacks = parse_pyspy_json(
        dump({"frames": same}, {"frames": same, "os_thread_id": 43, "thread_name": None, "owns_gil": True}),
        native=False,
        paused=False,
    )
    assert len(stacks.frames) == 2
    assert [(t.tid, t.name, t.holds_gil) for t in stacks.threads] == [(42, "MainThread", False), (43, "", True)]


def test_native_frames_are_marked() -> None:
    """They have a library for a module, and no line without debug information."""
    native = frame("c10d::Work::wait", 0, module="/opt/libtorch_cpu.so", filename="/opt/libtorch_cpu.so")
    stacks = parse_pyspy_json(dump({"frames": [native, frame("step")]}), native=True, paused=True)
    assert [f.native for f in stacks.frames] == [False, True]


def test_long_names_and_deep_stacks_are_cut() -> None:
    """Templates of kilobytes and endless recursions; both ends of a stack are kept."""
    deep = [frame("inner"), *(frame("f", n) for n in range(5000)), frame("outer" * 1000)]
    stacks = parse_pyspy_json(dump({"frames": deep}), native=False, paused=True)
    kept = stacks.stack(stacks.threads[0])
    assert len(kept) == DEEPEST_STACK
    assert kept[-1].function == "inner"
    assert len(kept[0].function) == LONGEST_NAME


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"{}",
        b"[1]",
        b'[{"pid": 1}]',
        b'[{"frames": 7}]',
        b'[{"frames": [{"name": 1, "filename": null}]}]',
        b'[{"frames": [{"name": "f", "filename": "x", "line": "9"}]}]',
        b'[{"frames": [{"filename": "x", "line": 9}]}]',
        b'[{"frames": [], "os_thread_id": "many"}]',
        b"[" * 100_000,
        b'[{"frames": [' + b"9" * 10_000 + b"]}]",
        b"\x80\x04\x95",
        dump({"frames": [frame("f")]})[:-5],
    ],
    ids=lambda data: repr(data[:24]),
)
def test_dumps_that_make_no_sense(data: bytes) -> None:
    """Each costs one error of ours."""
    with pytest.raises(UnreadableDump):
        parse_pyspy_json(data, native=False, paused=True)


def test_dump_that_is_too_large_is_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound comes before the parser."""
    monkeypatch.setattr("shared.formats.stack_dumps.LARGEST_DUMP", 10)
    with pytest.raises(UnreadableDump, match="larger"):
        parse_pyspy_json(dump({"frames": []}), native=False, paused=True)


TEXT = """\
Process 42: python3 train.py --steps 9
Python v3.11.7 (/usr/bin/python3.11)

Thread 42 (idle): "MainThread"
    read (libc.so.6)
    load (data/shards.py:17)
    <module> (train.py:3)
Thread 0x2B (active+gil): "Thread-1 (beat)"
    beat (beat.py:8)
Thread 44 (idle)
    wait (threading.py:331)
"""


def test_text_of_py_spy() -> None:
    """What people paste into tickets."""
    stacks = parse_pyspy_text(TEXT)
    assert stacks.pid == 42
    assert [(t.tid, t.name, t.active, t.holds_gil) for t in stacks.threads] == [
        (42, "MainThread", False, False),
        (43, "Thread-1 (beat)", True, True),
        (44, "", False, False),
    ]
    assert stacks.main is not None
    assert [(f.function, f.file, f.line, f.native) for f in stacks.stack(stacks.main)] == [
        ("<module>", "train.py", 3, False),
        ("load", "data/shards.py", 17, False),
        ("read", "libc.so.6", 0, True),
    ]


FAULT = """\
Current thread 0x00007f42170956c0 (most recent call first):
  <no Python frame>

Thread 0x00007f4217091b80 (most recent call first):
  File "/srv/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/srv/train.py", line ??? in main
"""


def test_text_of_faulthandler() -> None:
    """Its last thread is the main thread, and its ids are not the kernel's."""
    stacks = parse_faulthandler(FAULT)
    assert stacks.main is not None
    assert [(f.function, f.line) for f in stacks.stack(stacks.main)] == [("main", 0), ("all_reduce", 3252)]
    assert [t.tid for t in stacks.threads] == [None, None]
    assert stacks.threads[0].frames == ()


PYSTACK = """\
Traceback for thread 43 (python3) [] (most recent call last):
    (Python) File "/usr/lib/python3.11/threading.py", line 982, in run
        self._target(*self._args, **self._kwargs)
    (C) File "./nptl/wait.c", line 618, in pthread_cond_wait (inlined) (/usr/lib/libc.so.6)

Traceback for thread 42 (python3) [Has the GIL] (most recent call last):
    (Python) File "/srv/train.py", line 3, in <module>
"""


def test_text_of_pystack() -> None:
    """It says the outermost frame first, as we do."""
    stacks = parse_pystack_text(PYSTACK, pid=42)
    assert stacks.main is not None
    assert [f.function for f in stacks.stack(stacks.main)] == ["<module>"]
    other = stacks.threads[0]
    assert stacks.stack(other) == (
        Frame("run", "/usr/lib/python3.11/threading.py", 982),
        Frame("pthread_cond_wait", "/usr/lib/libc.so.6", 0, native=True),
    )
    assert [thread.holds_gil for thread in stacks.threads] == [False, True]


def test_text_of_pystack_as_people_keep_it() -> None:
    """It does not say which process it is of: the thread that `threading` did not begin has its id."""
    begun = PYSTACK.replace("line 982, in run", "line 1002, in _bootstrap")
    coloured = begun.replace("(Python)", "\x1b[32m(Python)\x1b[0m").replace("<module>", "\x1b[33m<module>\x1b[0m")
    for text in (begun, coloured, coloured.replace("\n", "\r\n")):
        stacks = parse_pystack_dump(text)
        assert stacks.main is not None
        assert stacks.pid == 42
        assert [f.function for f in stacks.stack(stacks.main)] == ["<module>"]


@pytest.mark.parametrize("text", ["", "hello", "Thread", "Thread 12 idle", '  File "x", line 3 in f', "(" * 100_000])
def test_text_that_is_no_dump(text: str) -> None:
    """None of the three."""
    for parse in (parse_pyspy_text, parse_faulthandler, parse_pystack_text, parse_pystack_dump):
        with pytest.raises(UnreadableDump):
            parse(text)
