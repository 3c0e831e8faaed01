"""Frames as gdb prints them, and text that is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.strace import parse_strace
from shared.errors import UnreadableDump
from shared.formats.stack_dumps import parse_gdb_text
from shared.wire.stacks import Frame

TEXT = """
Thread 2 (LWP 4786 "pt_nccl_watchdg"):
#0  0x00007f66449af7b in ?? () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007f66449af in c10d::TCPStore::wait(std::vector<int, std::less<int> > const&) (this=...) at TCPStore.cpp:512
#2  <signal handler called>
#3  (anonymous namespace)::run (argument=...) at run.cc:7
#4  0x0000000000000000 in ?? ()

Thread 1 (Thread 0x7f31c0a1 (LWP 4784) "python"):
#0  __GI___libc_read (nbytes=..., buf=..., fd=...) at ../sysdeps/read.c:26
#1  0x00007f0 in _start ()
"""


def test_frames() -> None:
    """Names with brackets of their own, libraries, lines, and frames that have none of it."""
    stacks = parse_gdb_text(TEXT, pid=4784)
    second, first = stacks.threads
    assert (second.tid, second.name, first.tid, first.name) == (4786, "pt_nccl_watchdg", 4784, "python")
    assert stacks.main == first
    assert stacks.stack(second) == (
        Frame("??", "", 0, native=True),
        Frame("(anonymous namespace)::run", "run.cc", 7, native=True),
        Frame("<signal handler called>", "", 0, native=True),
        Frame("c10d::TCPStore::wait(std::vector<int, std::less<int> > const&)", "TCPStore.cpp", 512, native=True),
        Frame("??", "/lib/x86_64-linux-gnu/libc.so.6", 0, native=True),
    )
    assert [frame.function for frame in stacks.stack(first)] == ["_start", "__GI___libc_read"]


def test_no_backtrace() -> None:
    """What gdb says when it cannot attach."""
    with pytest.raises(UnreadableDump, match="no thread"):
        parse_gdb_text("ptrace: Operation not permitted.\n")


@given(st.text(alphabet=st.sampled_from("#0 1(){}<>:at from in?\nThread LWP\"'x"), max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Never anything but stacks or our own error."""
    try:
        parse_gdb_text(f"Thread 1 (LWP 7):\n{text}")
    except UnreadableDump:
        pytest.fail("there was a thread")


@given(st.lists(st.text(max_size=80), max_size=20))
def test_any_lines_of_strace(lines: list[str]) -> None:
    """Lines that make no sense are passed over."""
    seen = parse_strace([f"7 10:00:00.1 {line}" for line in lines], pid=7, seconds=1.0)
    assert len(seen.lines) <= len(lines)
