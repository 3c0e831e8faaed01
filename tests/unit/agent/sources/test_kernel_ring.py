"""The kernel's ring buffer by syslog(2): this machine's own, and made-up ones read line by line."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.sources import kernel_ring
from agent.sources.kernel_log import KMSG, KernelLog, parse_record
from agent.sources.kernel_ring import KernelRing, read_ring
from shared.wire.kernel_events import KernelEventKind
from tests.build.processes.capabilities import is_dmesg_restricted, run_with_capabilities

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


class Ring:
    """What the kernel holds, and how often it was asked."""

    def __init__(self) -> None:
        self.text = b""
        self.asked = 0

    def write(self, at: str, text: str, *, prefix: str = "<4>", caller: str = "") -> None:
        self.text += f"{prefix}[{at}]{caller} {text}\n".encode()

    def read(self) -> bytes:
        self.asked += 1
        return self.text


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_ring, "_BETWEEN_READS_SECONDS", 0.0)


def told(ring: KernelRing, seconds: float = 5.0) -> list[tuple[float, str]]:
    return [(each.seconds, each.text) for each in ring.new(Deadline(seconds))]


@pytest.mark.usefixtures("often")
def test_what_is_new_is_told_once() -> None:
    """Also when the ring has dropped what it held before, and where the log has no device, as in a pod."""
    held = Ring()
    ring = KernelRing(held.read)
    held.write("   12.000001", "one")
    held.write("   12.500000", "two", caller="[  T912]")
    assert told(ring) == [(12.000001, "one"), (12.5, "two")]
    assert told(ring) == []
    held.write("99999.000000", "three")
    assert told(ring) == [(99999.0, "three")]
    held.text = b""
    held.write("99999.000000", "three")
    held.write("99999.100000", "four")
    assert told(ring) == [(99999.1, "four")]
    held.text = b""
    held.write("99999.200000", "five")
    assert told(ring) == [(99999.2, "five")]


@pytest.mark.usefixtures("often")
def test_only_the_kernel_is_believed() -> None:
    """Not what a process wrote to /dev/kmsg, nor what follows a line feed in a name that the kernel logs."""
    held = Ring()
    held.write("   12.000001", XID, prefix="<12>")
    held.write("   13.000001", "Out of memory: Killed process 7 (a")
    held.write("   13.000001", XID)
    held.text += f"{XID}\n<4>{XID}\n<4>[12] {XID}\n<99999>[   14.000001] {XID}\n".encode()
    held.write("   15.000001", "\x1b[2Jcleared \\ \x7f")
    assert told(KernelRing(held.read)) == [
        (13.000001, "Out of memory: Killed process 7 (a"),
        (15.000001, "\\x1b[2Jcleared \\x5c \\x7f"),
    ]


def test_beats_do_not_copy_it_each_time() -> None:
    """The ring of a large machine has 16 MiB. What is not read in time is read next time."""
    held = Ring()
    ring = KernelRing(held.read)
    held.write("   12.000001", "one")
    assert told(ring, seconds=0.0) == []
    assert [told(ring), told(ring), told(ring)] == [[(12.000001, "one")], [], []]
    assert held.asked == 2


def test_log_without_its_device_is_read_by_the_call(tmp_path: Path) -> None:
    """As in a pod with the component kernel-log."""
    held = Ring()
    held.write(f"{time.clock_gettime(time.CLOCK_MONOTONIC_RAW):12.6f}", XID)
    (event,) = KernelLog(ProcFs(), tmp_path / "kmsg", ring=KernelRing(held.read)).read(Deadline(5)).events
    assert (event.kind, event.code, event.device) == (KernelEventKind.XID, 79, "0000:3b:00")
    assert event.at is not None
    assert abs(event.at - time.time()) < 60


def test_neither_device_nor_call(tmp_path: Path) -> None:
    """Then the device is what is told about."""

    def refused() -> bytes:
        raise PermissionError

    with pytest.raises(Unavailable, match="no kernel log: "):
        KernelLog(ProcFs(), tmp_path / "kmsg", ring=KernelRing(refused)).read(Deadline(5))


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_ring_and_device_are_read_alike(message: str) -> None:
    """Lines of one record stand below each other in the ring, and behind each other in the device."""
    raw = message.encode()
    in_ring = b"".join(b"<4>[   12.000001] %s\n" % line for line in raw.split(b"\n"))
    escaped = b"".join(bytes([c]) if 32 <= c < 127 and c != 92 else rb"\x%02x" % c for c in raw)
    assert list(KernelRing(lambda: in_ring).new(Deadline(5))) == [parse_record(b"4,7,12000001,-;%s\n" % escaped)]


@pytest.mark.root
def test_what_a_process_writes_is_nobodys_word() -> None:
    """This machine's own log, in which a test can write lines of processes alone: it has them, and tells none."""
    if not KMSG.exists():
        pytest.skip(f"needs {KMSG}")
    marked = f"unhang-test {os.getpid()}"
    with KMSG.open("wb", buffering=0) as opened:
        opened.write(f"<0>{marked}\n".encode())
    assert marked.encode() in read_ring()
    assert all(marked not in text for _, text in told(KernelRing(), seconds=60))
    device = KernelLog(ProcFs())
    assert all(marked not in each.text for each in device._new(Deadline(60)))
    device.close()


@pytest.mark.needs("setpriv")
@pytest.mark.root
@pytest.mark.parametrize("capabilities", ["+syslog", "+chown"])
def test_capability_that_the_call_needs(capabilities: str) -> None:
    """What the component kernel-log grants is enough."""
    program = "from agent.sources.kernel_ring import read_ring; print(len(read_ring()))"
    done = run_with_capabilities(capabilities, program)
    if "syslog" in capabilities or not is_dmesg_restricted():
        assert int(done.stdout) > 0, done.stderr
    else:
        assert "Operation not permitted" in done.stderr
