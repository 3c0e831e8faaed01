"""Log tails of real processes, and files that are not what they seem."""

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from agent.errors import Gone, Unavailable
from agent.proc.file_access import READ, Permissions, Reader
from agent.proc.job_files import open_held, open_named, read_tail
from agent.proc.on_behalf_of import Readers
from agent.proc.procfs import ProcFs
from agent.sources.logs.logs_source import LogsSource, expand_nccl_path
from agent.sources.source import LookDepth
from shared.errors import NotPermitted
from shared.missing import Reason
from shared.wire.log_events import EventKind, Logs
from tests.build.processes.looking import PLAIN, ask_source, rank_of
from tests.build.processes.processes import SLEEP
from tests.build.processes.processes import running as running_with_our_errors

pytestmark = pytest.mark.ptrace

ROOT = (Reader(0, frozenset(), overrides=True),)
OTHER_USER = 61002


running = partial(running_with_our_errors, stderr=subprocess.DEVNULL)


def logs_of(pid: int, question: LookDepth = PLAIN, **environment: str) -> Logs:
    """Look at the logs of a process."""
    found = ask_source(LogsSource(), rank_of(pid, **environment), question)
    assert isinstance(found, Logs)
    return found


CRASH = """\
step 3
Traceback (most recent call last):
  File "train.py", line 9, in <module>
ValueError: token=0123abcd is wrong
"""


def test_file_behind_standard_output(tmp_path: Path) -> None:
    """Its end, what stands in it, and what that means; secrets are hidden."""
    log = tmp_path / "rank0.log"
    log.write_text(CRASH)
    with open(log, "a") as file, running(SLEEP, stdout=file, stderr=file, wait=False) as process:
        found = logs_of(process.pid)
    (tail,) = found.files
    assert tail.path == str(log)
    assert tail.lines[0] == "step 3"
    (event,) = found.events
    assert (event.kind, event.rank, event.fields["type"]) == (EventKind.EXCEPTION, 0, "ValueError")
    assert "0123abcd" not in found.model_dump_json()


def test_tail_is_bounded(tmp_path: Path) -> None:
    """A terabyte costs as little as a kilobyte: a sparse one, and its last lines."""
    log = tmp_path / "huge.log"
    with open(log, "wb") as file:
        file.truncate(1024**4)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"".join(b"step %d\n" % n for n in range(100)))
    begun = time.perf_counter()
    silent = "import time\ntime.sleep(600)\n"
    with open(log, "a") as file, running(silent, stdout=file, wait=False) as process:
        short, full = logs_of(process.pid), logs_of(process.pid, LookDepth(full=True))
    assert time.perf_counter() - begun < 60
    assert short.files[0].size_bytes > 1024**4
    assert short.files[0].lines[-1] == "step 99"
    assert len(short.files[0].lines) == 40
    assert len(full.files[0].lines) == 100


def test_log_shared_with_the_launcher(tmp_path: Path) -> None:
    """Lines of other ranks are theirs, and a line without a mark is nobody's."""
    log = tmp_path / "job.log"
    program = (
        "import os, sys, subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, file=open(sys.argv[1], 'w'), flush=True)\nchild.wait()\n"
    )
    log.write_text("[rank0]: mine\n[rank1]: ValueError: theirs\nboth\n" + CRASH)
    told = tmp_path / "pid"
    with (
        open(log, "a") as file,
        running(command=(sys.executable, "-c", program, str(told)), stdout=file, stderr=file, wait=False),
    ):
        while not (told.exists() and told.read_text().strip()):
            time.sleep(0.02)
        found = logs_of(int(told.read_text()))
    assert "[rank1]: ValueError: theirs" not in found.files[0].lines
    assert found.files[0].lines[:2] == ("[rank0]: mine", "both")
    assert [event.rank for event in found.events] == [None]


def test_output_that_goes_nowhere_readable() -> None:
    """A pipe to somebody else is no file."""
    with running() as process, pytest.raises(Unavailable) as caught:
        logs_of(process.pid)
    assert caught.value.reason is Reason.NOT_FOUND


def test_fifo_as_standard_output_is_not_opened(tmp_path: Path) -> None:
    """Opening it for reading would take what is meant for another, or block."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    opened = os.open(fifo, os.O_RDWR)
    try:
        with running(SLEEP, stdout=opened, wait=False) as process, pytest.raises(Unavailable, match="not a plain file"):
            logs_of(process.pid)
    finally:
        os.close(opened)


def test_nccl_debug_file(tmp_path: Path) -> None:
    """Its name holds the host's name and the process's number."""
    with running() as process:
        (tmp_path / f"nccl.here.{process.pid}").write_text("NCCL WARN Mismatched collective detected, around rank 3.\n")
        found = logs_of(process.pid, NCCL_DEBUG_FILE=f"{tmp_path}/nccl.%h.%p")
    assert [event.kind for event in found.events] == [EventKind.COLLECTIVE_MISMATCH]


def test_calls_at_the_end_of_a_large_debug_file_and_what_nccl_said_when_it_began(tmp_path: Path) -> None:
    """Communicators and networks stand at the beginning, calls at the end; what lies between is not read."""
    with running() as process:
        pid = process.pid
        head = (
            f"node1:{pid}:9 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.3<0>\n"
            f"node1:{pid}:9 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 1 nranks 4 cudaDev 0 nvmlDev 0 busId 30 "
            "commId 0x9f2c - Init START\n"
        )
        call = (
            "node1:{}:9 [0] NCCL INFO AllReduce: opCount {:x} sendbuff 0x7f00 recvbuff 0x7f00 count 64 datatype 7 op 0 "
            "root 0 comm 0x55d0 [nranks=4] stream 0x55e0\n"
        )
        text = head + "between\n" * 100_000 + call.format(pid, 30) + call.format(pid, 31)
        (tmp_path / "nccl").write_text(text)
        found = logs_of(pid, NCCL_DEBUG_FILE=str(tmp_path / "nccl"))
    (communicator,) = found.communicators
    assert (communicator.identity, communicator.rank, communicator.comm_rank) == ("0x9f2c", 0, 1)
    assert [called.number for called in communicator.calls] == [30, 31]
    assert [event.kind for event in found.events] == [EventKind.INTERFACE]


def test_names_in_the_path_of_a_debug_file() -> None:
    """`%%` is a per cent sign."""
    assert expand_nccl_path("/x/%h/%p/%%/%q", host="node1", pid=7) == "/x/node1/7/%/%q"


def test_error_file_of_torchrun(tmp_path: Path) -> None:
    """It tells the exception, and its folder holds what torchrun redirected."""
    message = {"message": "ValueError: no such shard", "extraInfo": {"py_callstack": "…", "timestamp": "1"}}
    (tmp_path / "error.json").write_text(json.dumps({"message": message}))
    (tmp_path / "stderr.log").write_text("all is lost\n")
    with running() as process:
        found = logs_of(process.pid, TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))
    assert [event.fields for event in found.events] == [{"type": "ValueError", "message": "no such shard"}]
    assert found.files[1].lines == ("all is lost",)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"message": 3}', '{"message": {"message": []}}', "[" * 100_000])
def test_error_file_that_makes_no_sense(tmp_path: Path, text: str) -> None:
    """It is shown, and tells nothing."""
    (tmp_path / "error.json").write_text(text)
    with running() as process:
        assert logs_of(process.pid, TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json")).events == ()


def refused(path: str, readers: Readers = ROOT) -> Exception:
    """Open a named file as our own process sees it, which must be refused."""
    with pytest.raises((Unavailable, NotPermitted, Gone)) as caught, open_named(ProcFs(), os.getpid(), path, readers):
        pass
    return caught.value


def test_only_plain_absolute_paths_of_plain_files_are_taken(tmp_path: Path) -> None:
    """Links are followed neither at the end of a path nor on the way; a FIFO, which a job may put there, blocks."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "log").write_text("x")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "log").symlink_to("/etc/shadow")
    os.mkfifo(tmp_path / "fifo")
    begun = time.perf_counter()
    for path in ("", "relative/log", "/tmp/../etc/shadow", "/x" * 100, "/dev/null", "/", "/proc"):
        refused(path)
    for name in ("log", "folder/log"):
        refused(f"{tmp_path}/{name}")
    assert "not a plain file" in str(refused(f"{tmp_path}/fifo"))
    assert time.perf_counter() - begun < 30
    with open_named(ProcFs(), os.getpid(), f"{tmp_path}/real/log", ROOT) as opened:
        assert os.read(opened, 9) == b"x"


@pytest.mark.root
def test_file_that_the_process_could_not_read(tmp_path: Path) -> None:
    """We may read everything; the job's user may not, and so we do not for them."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    reader = (Reader(OTHER_USER, frozenset({OTHER_USER})),)
    tmp_path.chmod(0o755)
    assert isinstance(refused(str(secret), reader), NotPermitted)
    secret.chmod(0o644)
    tmp_path.chmod(0o700)
    assert isinstance(refused(str(secret), reader), NotPermitted)
    with open(secret) as file, running(SLEEP, stdin=file) as process:
        secret.chmod(0o600)
        with pytest.raises(NotPermitted), open_held(ProcFs(), process.pid, 0, reader):
            pass


@pytest.mark.parametrize(
    ("reader", "mode", "may"),
    [
        (Reader(5, frozenset()), 0o400, True),
        (Reader(5, frozenset()), 0o044, False),
        (Reader(9, frozenset({6})), 0o040, True),
        (Reader(9, frozenset({6})), 0o404, False),
        (Reader(9, frozenset({7})), 0o004, True),
        (Reader(9, frozenset({7})), 0o040, False),
        (Reader(0, frozenset(), overrides=True), 0, True),
        (Reader(0, frozenset({0})), 0o600, False),
    ],
)
def test_mode_bits_decide(reader: Reader, mode: int, may: bool) -> None:
    """Owner, group, others; the first that fits counts. Root is no exception without the capability for it."""
    assert reader.may(Permissions(mode, 5, 6), READ) is may


def test_tail_begins_with_a_whole_line(tmp_path: Path) -> None:
    """A cut line could be mistaken for another."""
    path = tmp_path / "log"
    path.write_bytes(b"first line\nsecond\nthird\n")
    with open(path, "rb") as file:
        assert read_tail(file.fileno(), 10) == b"third\n"
        assert read_tail(file.fileno(), 1000) == b"first line\nsecond\nthird\n"
