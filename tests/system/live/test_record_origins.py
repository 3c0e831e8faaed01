"""Records of a real rank that come from elsewhere than its memory: the debug server's port, and a watchdog's file."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.memory.torch_layouts import TABLE, Layout, LayoutTable
from agent.proc.procfs import ProcFs
from agent.sources.look_context import LookContext
from agent.sources.recorder import debug_server
from agent.sources.recorder.debug_server import DebugServerFinder
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.recorder_source import RecorderSource
from agent.sources.source import Answer, LookDepth
from shared.wire.trace import Origin, Trace
from tests.build.processes.looking import PLAIN, rank_of
from tests.build.processes.processes import running

pytestmark = [pytest.mark.live, pytest.mark.ptrace]

RANK = """
import ctypes, os, socket, sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for _ in range(3):
    dist.all_reduce(torch.ones(4))
other = socket.create_server(("127.0.0.1", 0))
server = None
if "serve" in sys.argv:  # as torch.distributed.debug.start_debug_server does in each rank
    from torch._C._distributed_c10d import _WorkerServer
    server = _WorkerServer("::", 0)
if "dump" in sys.argv:  # as the watchdog does
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    text = ctypes.create_string_buffer(64)
    dump = library["_ZN4c10d13dump_fr_traceB5cxx11Ebbb"]
    dump.argtypes = [ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool, ctypes.c_bool]
    dump(text, True, True, False)
    writer_for = library["_ZN4c10d15DebugInfoWriter9getWriterEi"]
    writer_for.restype = ctypes.c_void_p
    write = library["_ZN4c10d15DebugInfoWriter5writeERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"]
    write.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    write(writer_for(0), text)
print("ready", flush=True)
time.sleep(600)
"""


class Unknown(LayoutTable):
    """As of a PyTorch that is newer than the table."""

    def candidates(self, *_: object) -> list[Layout]:
        """Know none."""
        return []


class Ranks(NamedTuple):
    """Two processes that are both rank 0 of something, and leave their dumps in the same place."""

    serving: int
    dumping: int
    other: int


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """One serves, one has left a dump, and one has the same home."""
    home = {"HOME": str(tmp_path_factory.mktemp("home")), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH_", "XDG_"))} | home
    start = (sys.executable, "-c", RANK)
    with (
        running(command=(*start, "serve"), env=env) as serving,
        running(command=start, env=env) as other,
        running(command=(*start, "dump"), env=env) as dumping,
    ):
        yield Ranks(serving.pid, dumping.pid, other.pid)


def answer_of(pid: int, question: LookDepth = PLAIN, *, known: bool = False) -> Answer:
    """Look at a rank whose layout nobody knows, unless `known`."""
    table = None if known else Unknown(json.loads(TABLE.read_bytes()))
    source = RecorderSource(locator=RecorderLocator(table))
    return source.look(rank_of(pid), LookContext(ProcFs(), "here"), question, Deadline(60))


def sequences(trace: Any) -> list[int]:
    """Return the numbers of the operations."""
    assert isinstance(trace, Trace)
    return list(trace.collective_seq)


def test_debug_server_where_memory_is_not_understood(ranks: Ranks) -> None:
    """Its port is found in the rank's memory; the other port on which the rank listens is left alone."""
    trace = answer_of(ranks.serving)["recorder"]
    assert sequences(trace) == [1, 2, 3]
    assert isinstance(trace, Trace)
    assert trace.origin == (Origin.DEBUG_SERVER,)


def test_debug_server_beside_memory(ranks: Ranks) -> None:
    """Where all is asked for, the two are compared."""
    trace = answer_of(ranks.serving, LookDepth(full=True), known=True)["recorder"]
    assert isinstance(trace, Trace)
    assert (trace.origin, trace.contradiction) == ((Origin.MEMORY, Origin.DEBUG_SERVER), "")


def test_rank_that_listens_for_others_only(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is tried, nor its memory searched: no thread of a server runs there."""
    context = LookContext(ProcFs(), "here")
    monkeypatch.setattr(debug_server, "search_words", lambda *_, **__: pytest.fail("its memory was searched"))
    assert DebugServerFinder().find(rank_of(ranks.other), context, Deadline(60)) is None


def test_file_of_the_watchdog(ranks: Ranks) -> None:
    """Taken from where PyTorch puts it by default, with the time at which it was written."""
    answer = answer_of(ranks.dumping)
    assert sequences(answer["recorder"]) == [1, 2, 3]
    trace, written_ns = answer["recorder"], answer["recorded_at_ns"]
    assert isinstance(trace, Trace)
    assert isinstance(written_ns, int)
    assert trace.origin == (Origin.DUMP_FILE,)
    assert max(trace.created_ns) <= written_ns
    assert trace.record(2).call_site


def test_surveys_leave_files_alone(ranks: Ranks) -> None:
    """A survey tells marks without their age."""
    with pytest.raises(Unavailable, match="not known"):
        answer_of(ranks.dumping, LookDepth(brief=True))


def test_file_that_another_process_wrote(ranks: Ranks) -> None:
    """Whose name and place are what this rank's would be: it was written since it began, and none of it is its own."""
    with pytest.raises(Unavailable, match="may be another job's: none of the threads"):
        answer_of(ranks.other)


@pytest.mark.parametrize(
    "content", ["", "{", '{"entries": [{"thread_id": "4096"}]}', '{"entries": [{"thread_id": 7}]}']
)
def test_file_that_is_no_dump(ranks: Ranks, content: str, tmp_path: Path) -> None:
    """Told beside why memory was not read."""
    home = Path(Path(f"/proc/{ranks.dumping}/environ").read_text().partition("HOME=")[2].partition("\0")[0])
    (dump,) = home.glob(".cache/torch/*")
    kept = tmp_path / "kept"
    dump.rename(kept)
    try:
        dump.write_text(content)
        with pytest.raises(Unavailable, match=r"not known.*may be another job's"):
            answer_of(ranks.dumping)
    finally:
        with suppress(FileNotFoundError):
            kept.replace(dump)
