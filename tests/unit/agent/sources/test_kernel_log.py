"""The kernel's log: the machine's own, and made-up ones read record by record."""

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.sources.kernel_log import KernelLog, parse_record
from shared.errors import NotPermitted
from shared.missing import Reason
from shared.wire.kernel_events import KernelEvent, KernelEventKind
from tests.build.processes.capabilities import is_dmesg_restricted, run_with_capabilities

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
HUNG = "INFO: task python3:{pid} blocked for more than 120 seconds."


class Log(KernelLog):
    """A log whose records come through a socket that keeps them apart, as /dev/kmsg does."""

    def __init__(self) -> None:
        super().__init__(ProcFs())
        self._opened, self.writer = (end.detach() for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        os.set_blocking(self._opened, False)
        self.number = 0

    def write(self, *lines: str, seconds: float | None = None, priority: int = 4) -> None:
        """Let the kernel print lines, now or so many seconds after it booted."""
        at = time.clock_gettime(time.CLOCK_MONOTONIC_RAW) if seconds is None else seconds
        for text in lines:
            self.number += 1
            os.write(self.writer, f"{priority},{self.number},{int(at * 1e6)},-;{text}\n SUBSYSTEM=pci\n".encode())

    def told(self) -> tuple[KernelEvent, ...]:
        """Read what is new."""
        return self.read(Deadline(5)).events


@pytest.fixture
def log() -> Iterator[Log]:
    """A made-up log."""
    made = Log()
    yield made
    made.close()
    os.close(made.writer)


def test_lines_are_told_with_their_time_and_counted(log: Log) -> None:
    """In Unix seconds. A driver may print the same thousands of times; a later look goes on where the first ended.

    Facility 1 is what the kernel gives to all that processes write, whatever they claim: that accuses nobody.
    """
    log.write(XID, priority=12)
    assert log.told() == ()
    log.write(*[XID] * 3)
    (event,) = log.told()
    assert (event.kind, event.code, event.device, event.count) == (KernelEventKind.XID, 79, "0000:3b:00", 3)
    assert event.at is not None and abs(event.at - time.time()) < 60
    log.write(XID, XID.replace("3b", "86"))
    assert [(event.device, event.count) for event in log.told()] == [("0000:3b:00", 4), ("0000:86:00", 1)]
    assert log.told() == log.told()


def test_hung_task_brings_its_stack(log: Log) -> None:
    """Up to the end of the stack; what comes later belongs to others."""
    log.write(
        HUNG.format(pid=4194303),
        "      Not tainted 6.12.0 #1",
        "task:python3         state:D stack:0     pid:4194303 tgid:4194303  ppid:1685   flags:0x0",
        "Call Trace:",
        " <TASK>",
        " __schedule+0x420/0xd30",
        " ? __pfx_wake+0x10/0x10",
        " nvidia_ioctl+0x12/0x60 [nvidia]",
        " </TASK>",
        " other+0x1/0x2 [other]",
    )
    (event,) = log.told()
    assert event.stack == ("__schedule+0x420/0xd30", "nvidia_ioctl+0x12/0x60 [nvidia]")


@pytest.mark.steady
@pytest.mark.node
def test_events_are_bounded(log: Log) -> None:
    """A log full of faults keeps the newest. The kernel names tasks; a rank is known by its process."""
    for bus in range(199):
        log.write(XID.replace("3b", f"{bus:02x}"), seconds=float(bus + 1))
        log.told()
    log.write(HUNG.format(pid=os.getpid()), seconds=200.0)
    events = log.told()
    assert len(events) == 128
    assert (events[-2].device, events[-1].pid) == ("0000:c6:00", os.getpid())


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"4,1,2", b"4,1,2,-", b"4,1,x,-;text", b"999999,1,2,-;t", b"4,1,2,-" + b"a" * 8000, b"\xff" * 100],
)
def test_records_that_make_no_sense(data: bytes) -> None:
    """They are left out; a name may hold any bytes."""
    assert parse_record(data) is None
    record = parse_record(b"6,1,2500000,-,caller=T7;a\xffb\n KEY=value\n")
    assert record is not None and (record.seconds, record.text) == (2.5, "a�b")


def test_flood_ends_with_the_deadline(log: Log) -> None:
    """What is not read in time is read next time."""
    log.write(XID)
    assert log.read(Deadline(0.0)).events == ()
    assert len(log.told()) == 1


OOM = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,task_memcg=/job/step_0,"
    "task=python,pid={pid},uid=0",
    "Memory cgroup out of memory: Killed process {pid} (python) total-vm:9kB, UID:0",
)


def test_cgroup_of_who_was_killed(log: Log) -> None:
    """It stands in the line before, of that process alone."""
    log.write(*(line.format(pid=1_000_000_000) for line in OOM), OOM[1].format(pid=1_000_000_001))
    assert [event.cgroup for event in log.told()] == ["/job/step_0", None]


IN_A_NAMESPACE = """
import os
from tests.unit.agent.sources.test_kernel_log import OOM, Log
log = Log()
log.write(OOM[1].format(pid=os.getpid()))
print([(event.pid, event.host_pid) for event in log.told()], os.getpid())
"""


@pytest.mark.root
def test_numbers_of_the_host_are_not_ours() -> None:
    """In a PID namespace of our own the same number is another process, were it our own."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", IN_A_NAMESPACE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["[(None,", "1)]", "1"]


READ = """
from agent.deadline import Deadline
from agent.proc.procfs import ProcFs
from agent.sources.kernel_log import KernelLog
print(KernelLog(ProcFs()).read(Deadline(10)).since)
"""


@pytest.mark.needs("setpriv")
@pytest.mark.root
@pytest.mark.parametrize("capabilities", ["+dac_read_search,+syslog", "+dac_read_search"])
def test_capability_that_the_log_needs(capabilities: str) -> None:
    """What the optional drop-in of the unit grants, and nothing else, is enough."""
    done = run_with_capabilities(capabilities, READ)
    if "syslog" in capabilities or not is_dmesg_restricted():
        assert float(done.stdout) > 0, done.stderr
    else:
        assert "NotPermitted: not allowed to read the kernel log" in done.stderr


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ENXIO])
def test_log_that_may_not_be_read(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice says how."""

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("agent.sources.kernel_log.os.open", refuse)
    with pytest.raises(NotPermitted) as refused:
        KernelLog(ProcFs()).read(Deadline(1))
    assert "CAP_SYSLOG" in refused.value.advice


def test_something_else_in_the_place_of_the_log(tmp_path: Path) -> None:
    """Nothing, as in most containers; a folder, or a file that is no log."""
    for path in (tmp_path / "kmsg", tmp_path):
        with pytest.raises(Unavailable) as missing:
            KernelLog(ProcFs(), path).read(Deadline(1))
        assert (missing.value.reason is Reason.NOT_FOUND) is (path != tmp_path)
    (tmp_path / "file").write_text("not a record\n" * 1000)
    assert KernelLog(ProcFs(), tmp_path / "file").read(Deadline(1)).events == ()
