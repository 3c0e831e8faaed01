"""Dumps read by several processes: the same traces in the same order, and what goes wrong with one stays with it."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from collector.files import parallel_dumps as dump_readers
from collector.files.parallel_dumps import DumpReaders
from collector.files.read_directory import read_recorded
from shared.formats.recorder.dump import parse_dump
from shared.wire.trace import Trace
from tests.build.processes.processes import is_alive, until

REPOSITORY = Path(__file__).resolve().parents[4]

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # threads of other tests


def dump(op_id: int) -> bytes:
    return pickle.dumps({"version": "2.10", "entries": [{"op_id": op_id, "profiling_name": "nccl:all_reduce"}]}, 2)


def parse_or_die(data: bytes) -> Trace:
    """A parser that some bytes are fatal to."""
    if data == b"die":
        os.kill(os.getpid(), signal.SIGKILL)
    if data == b"hang":
        time.sleep(60)
    return parse_dump(data)


def read(readers: DumpReaders, dumps: list[bytes]) -> list[Trace | str]:
    for number, data in enumerate(dumps):
        readers.add(f"rank_{number}", data)
    named = list(readers.results())
    assert [name for name, _ in named] == [f"rank_{number}" for number in range(len(dumps))]
    return [answer for _, answer in named]


def test_workers_give_what_one_process_gives_in_the_same_order() -> None:
    dumps = [dump(number) for number in range(1, 50)]
    with DumpReaders(workers=3, at_once=0) as several, DumpReaders(workers=0) as none:
        assert read(several, dumps) == read(none, dumps)


def test_equal_tables_are_kept_once() -> None:
    with DumpReaders(workers=2, at_once=1) as readers:
        traces = [trace for trace in read(readers, [dump(1), dump(2), dump(3)]) if isinstance(trace, Trace)]
    assert len(traces) == 3
    assert len({id(trace.signatures) for trace in traces}) == 1


def test_a_few_dumps_start_no_process(tmp_path: Path) -> None:
    before = psutil.Process().children()
    with DumpReaders() as readers:
        read(readers, [dump(number) for number in range(dump_readers._AT_ONCE)])
        assert psutil.Process().children() == before


def test_broken_dumps_and_dumps_that_kill_cost_themselves_alone() -> None:
    dumps = [dump(1), b"die", dump(2), b"\x80\x02nonsense", b"die", dump(3), dump(4)]
    with DumpReaders(parse_or_die, workers=2, at_once=0) as readers:
        answers = read(readers, dumps)
    died = "the process reading it died of it"
    assert [answer if isinstance(answer, str) else answer.op_id[0] for answer in answers] == [
        1,
        died,
        2,
        "the pickle holds opcode 0x6e at byte 2: only plain data is read",
        died,
        3,
        4,
    ]


def test_a_dump_that_takes_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_readers, "_MOST_SECONDS", 2.0)
    with DumpReaders(parse_or_die, workers=2, at_once=0) as readers:
        first, second, third = read(readers, [b"hang", dump(1), dump(2)])
    assert first == "reading it took longer than 2 s"
    assert isinstance(second, Trace) and isinstance(third, Trace)


def test_nothing_is_left_behind_when_reading_ends_early() -> None:
    before = set(psutil.Process().children())
    with DumpReaders(parse_or_die, workers=2, at_once=0) as readers:
        readers.add("rank_0", b"hang")
        assert len(set(psutil.Process().children()) - before) == 1
    assert set(psutil.Process().children()) == before


def test_beside_another_thread_no_process_is_forked() -> None:
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        assert dump_readers._affordable() == 0
    finally:
        stop.set()
        other.join()


SLOW = """
import sys, time
from collector.files.parallel_dumps import DumpReaders

def slow(data):
    time.sleep(1.0)

with DumpReaders(slow, workers=2, at_once=0) as readers:
    for number in range(60):
        readers.add(str(number), b"")
        print(number, flush=True)
"""


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(ending: signal.Signals) -> None:
    """Ctrl-C reaches them too; a killed parent can tell them nothing."""
    parent = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    while parent.stdout.readline() != "1\n":
        pass
    workers = psutil.Process(parent.pid).children()
    assert len(workers) == 2
    os.killpg(parent.pid, ending) if ending is signal.SIGINT else parent.send_signal(ending)
    _, said = parent.communicate(timeout=20)
    until(lambda: [is_alive(worker.pid) for worker in workers], lambda alive: not any(alive))
    assert said.count("Traceback") == (1 if ending is signal.SIGINT else 0)  # the parent's own


def test_a_directory_of_many_ranks_is_read_whole(tmp_path: Path) -> None:
    """As `--from` reads it: more dumps than are read in place, one of them broken."""
    for rank in range(40):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(dump(rank + 1))
    (tmp_path / "nccl_trace_rank_33").write_bytes(b"\x80\x02cos\nsystem\n.")
    recorded = read_recorded(tmp_path)
    read_ops = {
        rank.identity.rank: rank.recorder.op_id[0]
        for snapshot in recorded.snapshots
        for rank in snapshot.ranks
        if isinstance(rank.recorder, Trace)
    }
    assert read_ops == {rank: rank + 1 for rank in range(40) if rank != 33}
    assert [missing.source for missing in recorded.missing] == ["nccl_trace_rank_33"]
