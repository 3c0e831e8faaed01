"""Flight records asked of ranks: of a real worker server's likeness, and of servers that are slow, endless or false."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.sources.recorder.merge import compare, merge
from agent.sources.recorder.process_groups import complete, parse_groups
from agent.sources.recorder.recorder_source import RecorderSource
from agent.sources.recorder.unix_server import UnixServer
from agent.sources.recorder.worker_server import ask as ask_server
from agent.sources.source import LookDepth
from agent.tools.memory_budget import Memory
from shared.errors import InvalidInput
from shared.formats.recorder.dump import parse_dump
from shared.missing import Reason
from shared.wire.trace import Group, Trace
from tests.build.processes.looking import PLAIN, ask_source, rank_of
from tests.build.processes.processes import running, until

pytestmark = pytest.mark.ptrace


def entry(
    sequence: int, *, group: tuple[str, str] = ("0", "default_pg"), op: str = "all_reduce", backend: str = "gloo"
) -> dict[str, object]:
    """Return one record as torch 2.13 writes it."""
    return {
        "collective_seq_id": sequence, "p2p_seq_id": 0, "op_id": sequence, "is_p2p": False, "pg_id": int(group[0]),
        "process_group": list(group), "profiling_name": f"{backend}:all_reduce", "record_id": 1, "retired": False,
        "state": "scheduled", "input_dtypes": ["Float"], "input_sizes": [[16]], "output_dtypes": ["Float"],
        "output_sizes": [[16]], "time_created_ns": 1_700_000_000_000_000_000 + sequence, "timeout_ms": 1800000,
        "time_discovered_started_ns": 0, "time_discovered_completed_ns": 0, "thread_id": "1", "thread_name": "python",
    }  # fmt: skip


def dump(*entries: dict[str, object]) -> str:
    """Return a dump as torch 2.13 answers it."""
    status = {"0": {"last_enqueued_collective": "3", "last_started_collective": "-1", "last_completed_collective": "2"}}
    config = {"": {"name": "", "desc": "", "ranks": "[]"}}
    return json.dumps({"version": "2.10", "pg_config": config, "pg_status": status, "entries": list(entries)})


OF_NCCL2 = "fr_trace_json?backend=nccl2"
SERVER = """
import json, os, socket, sys, time
folder, behaviour, answers = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
path = f"{folder}/{os.getpid()}.sock"
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
print("ready", flush=True)
while True:
    channel, _ = server.accept()
    if behaviour == "silent":
        time.sleep(600)
    request = (channel.recv(65536).decode() + "  ").split(" ")[1]  # a client that asks nothing has just hung up
    body = answers.get(request, "").encode()
    status = "200 OK" if request in answers else "404 Not Found"
    head = f"HTTP/1.1 {status}\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n".encode()
    if behaviour == "claims":
        head = b"HTTP/1.1 200 OK\\r\\nContent-Length: 1073741824\\r\\n\\r\\n"
    if behaviour == "garbage":
        head, body = b"", b"\\x00\\xff" * 50000
    if behaviour == "short":
        body = body[:-3]
    if behaviour == "chunked":
        head = b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
    if behaviour == "closes":
        channel.close(); continue
    try:
        if behaviour == "endless":
            channel.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
            while True: channel.sendall(b"x" * 1000000)
        if behaviour == "drips":
            for byte in head + body:
                channel.sendall(bytes([byte])); time.sleep(0.2)
        channel.sendall(head + body)
    except OSError: pass
    channel.close()
"""


@contextmanager
def serving(tmp_path: Path, behaviour: str = "honest", *, folder: str = "unhang-test", **answers: str) -> Iterator[int]:
    """Run a process that listens where the probe would, or in another folder, and return its pid."""
    (tmp_path / folder).mkdir(exist_ok=True)
    handlers = ["fr_trace_json", *(["dump_nccl_trace_json"] if "dump_nccl_trace_json" in answers else ["ping"])]
    handlers += ["fr_dump_file"] if OF_NCCL2 in answers else []
    paths = {f"/handler/{name}": text for name, text in answers.items()} | {"/handler/": json.dumps(handlers)}
    with running(
        command=(sys.executable, "-c", SERVER, f"{tmp_path}/{folder}", behaviour, json.dumps(paths))
    ) as process:
        yield process.pid


def trace_of(pid: int, question: LookDepth = PLAIN, *, seconds: float = 10.0, **environment: str) -> Trace:
    """Ask a process for its flight record."""
    found = ask_source(RecorderSource(), rank_of(pid, **environment), question, seconds=seconds)
    assert isinstance(found, Trace)
    return found


def reason_of(pid: int, *, seconds: float = 10.0) -> Unavailable:
    """Ask a process for its flight record, which it cannot give."""
    with pytest.raises(Unavailable) as caught:
        trace_of(pid, seconds=seconds)
    return caught.value


def test_record_of_a_rank(tmp_path: Path) -> None:
    """What it has issued, and its marks; finished records are cut to the last few unless all are asked for.

    Members come from the probe's list: Gloo's recorder leaves them out.
    """
    done = [{**entry(n), "retired": True} for n in range(1, 101)]
    groups = {"version": 1, "groups": [{"name": "0", "description": "default_pg", "backend": "gloo", "ranks": [3, 1]}]}
    with serving(tmp_path, fr_trace_json=dump(*done)) as pid:
        (tmp_path / "unhang-test" / f"{pid}.groups.json").write_text(json.dumps(groups))
        found, whole = trace_of(pid, LookDepth(window=5)), trace_of(pid, LookDepth(window=5, full=True))
    assert [record.collective_seq for record in found.records()] == [96, 97, 98, 99, 100]
    assert [(mark.issued, mark.completed) for mark in found.marks] == [(3, 2)]
    assert [(group.members, group.order) for group in found.groups] == [("1,3", (3, 1))]
    assert len(whole) == 100


@pytest.mark.parametrize("text", ["", "{", "[]", '{"groups": 3}', '{"groups": [{"name": "0"}]}', "[" * 99_999])
def test_list_of_groups_that_makes_no_sense(tmp_path: Path, text: str) -> None:
    """The record counts without it."""
    with serving(tmp_path, fr_trace_json=dump(entry(1))) as pid:
        (tmp_path / "unhang-test" / f"{pid}.groups.json").write_text(text)
        assert trace_of(pid).groups[0].members is None


@pytest.mark.parametrize("ranks", ["[-1]", "[true]", '["1"]', "[4194304]", "3", "[1.0]"])
def test_members_that_are_no_ranks(ranks: str) -> None:
    """The whole list is refused."""
    text = f'{{"groups": [{{"name": "0", "description": "", "ranks": {ranks}}}]}}'
    with pytest.raises(InvalidInput):
        parse_groups(text.encode())


def test_known_members_are_not_overwritten() -> None:
    """What torch itself says goes before our list."""
    trace = Trace(groups=(Group(name="0", members="0-1"),))
    assert complete(trace, {("0", ""): (5, 6)}) == trace


@pytest.mark.parametrize("length", [0, 107])
def test_socket_that_the_job_opened(tmp_path: Path, length: int) -> None:
    """By the variable that torch itself uses. An address holds 107 bytes: the path fits, that from outside does not."""
    folder = "own".ljust(length - len("/1234567.sock") - len(str(tmp_path)) - 1, "7")
    with serving(tmp_path, folder=folder, fr_trace_json=dump(entry(1))) as pid:
        path = f"{tmp_path}/{folder}/{pid}.sock"
        assert (len(f"/proc/{pid}/root{path}") > 107) >= bool(length)
        assert len(trace_of(pid, TORCH_WORKER_SERVER_SOCKET=path)) == 1
        assert reason_of(pid).reason is Reason.NOT_ENABLED


def test_rank_without_a_recorder() -> None:
    """Of another framework, or too early: the answer says so."""
    with running() as process:
        error = reason_of(process.pid)
    assert error.reason is Reason.NOT_ENABLED
    assert "has not loaded PyTorch" in str(error)


def test_stopped_rank_is_not_waited_for(tmp_path: Path) -> None:
    """It accepts a connection and never answers; we know before we ask."""
    with serving(tmp_path, fr_trace_json=dump()) as pid:
        os.kill(pid, signal.SIGSTOP)
        until(lambda: ProcFs().stat(pid).state, lambda state: state == "T")
        begun = time.perf_counter()
        assert reason_of(pid, seconds=60.0).reason is Reason.TIMED_OUT
        assert time.perf_counter() - begun < 30


def test_rank_that_our_own_look_stops_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """As py-spy does beside us: it ran when it was found, and runs again soon."""
    with serving(tmp_path, fr_trace_json=dump(entry(1))) as pid:
        rank = rank_of(pid)
        os.kill(pid, signal.SIGSTOP)
        until(lambda: ProcFs().stat(pid).state, lambda state: state == "T")
        waker = threading.Timer(0.3, os.kill, (pid, signal.SIGCONT))
        waker.start()
        found = ask_source(RecorderSource(), rank)
        waker.join()
    assert isinstance(found, Trace)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("silent", Reason.TIMED_OUT),
        ("drips", Reason.TIMED_OUT),
        ("claims", Reason.REFUSED),
        ("garbage", Reason.UNREADABLE),
        ("short", Reason.UNREADABLE),
        ("chunked", Reason.UNREADABLE),
        ("closes", Reason.UNREADABLE),
    ],
)
def test_servers_that_misbehave(tmp_path: Path, behaviour: str, reason: Reason) -> None:
    """Each costs its own Missing, and no more time than there is."""
    with serving(tmp_path, behaviour, fr_trace_json=dump(entry(1))) as pid:
        begun = time.perf_counter()
        assert reason_of(pid, seconds=1.0 if reason is Reason.TIMED_OUT else 60.0).reason is reason
        assert time.perf_counter() - begun < 30


def test_server_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound without a length."""
    monkeypatch.setattr("agent.sources.recorder.worker_server.LARGEST_ANSWER", 3_000_000)
    with serving(tmp_path, "endless") as pid:
        assert reason_of(pid).reason is Reason.REFUSED


@pytest.mark.parametrize("body", ["", "{", "[]", "[" * 99_999, '{"entries": 7}', "null", "\x80\x02"])
def test_dumps_that_make_no_sense(tmp_path: Path, body: str) -> None:
    """The parser's error becomes the reason."""
    with serving(tmp_path, fr_trace_json=body) as pid:
        assert reason_of(pid).reason is Reason.UNREADABLE


def test_socket_of_another_process_is_refused(tmp_path: Path) -> None:
    """Nothing is sent to whoever has put a socket in a rank's place."""
    with serving(tmp_path, fr_trace_json=dump()) as pid:
        path = str(tmp_path / "unhang-test" / f"{pid}.sock")
        for wrong_pid, wrong_uid in ((pid + 1, os.getuid()), (pid, os.getuid() + 1)):
            server = UnixServer(wrong_pid, wrong_uid, path, path)
            with pytest.raises(Unavailable) as caught, Memory().receiving() as receipt:
                ask_server(server, "GET /", deadline=Deadline(2), receipt=receipt)
            assert caught.value.reason is Reason.REFUSED


def test_two_recorders_are_put_together(tmp_path: Path) -> None:
    """A rank that uses NCCL and Gloo has one for each; what both tell is told once."""
    nccl = dump(entry(1, group=("1", "dp"), backend="nccl"), entry(2, group=("1", "dp"), backend="nccl"))
    both = dump(entry(2, group=("1", "dp"), backend="nccl"), entry(1, group=("2", "cpu")))
    with serving(tmp_path, dump_nccl_trace_json=nccl, fr_trace_json=both) as pid:
        found = trace_of(pid)
    told = [(record.group.description, record.collective_seq) for record in found.records()]
    assert sorted(told) == [("cpu", 1), ("dp", 1), ("dp", 2)]


def test_record_that_is_told_by_the_name_of_its_backend(tmp_path: Path) -> None:
    """As NCCL's since 2.15. Where nothing is unfinished its counts tell no number to hold against those of others."""
    gloo = dump(entry(1, group=("2", "cpu")))
    idle = json.loads(dump(entry(2, backend="nccl2"))) | {"entries": []}
    for told, numbers in ((dump(entry(2, backend="nccl2")), [2]), (json.dumps(idle), [])):
        with serving(tmp_path, fr_trace_json=gloo, **{OF_NCCL2: told}) as pid:
            found = trace_of(pid)
        assert [each.collective_seq for each in found.records() if each.signature.backend == "nccl"] == numbers
    assert found.marks == parse_dump(gloo.encode()).marks


def test_merging_one_or_none() -> None:
    """An empty recorder beside a full one adds nothing."""
    full = parse_dump(dump(entry(1)).encode())
    assert merge([Trace(), full]) == full
    assert merge([Trace(), Trace()]) == Trace()


def test_two_copies_that_contradict_each_other() -> None:
    """The server was asked later: an operation may have gone on since, but it is no other one and went not back."""
    memory = parse_dump(dump(entry(1), entry(2)).encode())
    later = parse_dump(dump(entry(1), {**entry(2), "retired": True}, entry(3)).encode())
    assert compare(memory, later).contradiction == ""
    assert len(compare(memory, later)) == 3
    assert "1 of 2 operations differ" in compare(later, memory).contradiction
    other = parse_dump(dump(entry(1), {**entry(2), "profiling_name": "gloo:broadcast"}).encode())
    assert "sequence 2 of group" in compare(memory, other).contradiction
