"""Memory: what a hostile rank, file or agent sends is read within a bound, or refused in words."""

import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

import httpx
import pytest

from shared.missing import Missing, Reason
from shared.wire.snapshot import NodeSnapshot, RankSnapshot
from shared.wire.trace import Trace
from tests.build.processes.commands import environment
from tests.build.processes.ports import free_port
from tests.build.processes.processes import HERE, rank_environment, running, until
from tests.build.processes.waiting import until_it_answers
from tests.build.processes.warm import started
from tests.system.attacks.hostile_server import SHAPES

REPOSITORY = Path(__file__).parents[3]
MEMORY_HIGH = 512 * 1024 * 1024
"""Of deploy/systemd/unhang-agent.service; at twice that the kernel kills the agent."""
PORT = 29491
HEARD_SECONDS = 120.0


@contextmanager
def an_agent(folder: Path) -> Iterator[tuple[str, int]]:
    """Run an agent in a process of its own; gives its URL and its process id."""
    url = f"http://{(listen := f'127.0.0.1:{free_port()}')}"
    variables = environment({"UNHANG_AGENT_BEAT_SECONDS": "0"})
    with (
        open(folder / "agent.log", "w") as log,
        started(("agent", "--listen", listen), environment=variables, directory=folder, output=log.fileno()) as agent,
    ):
        until_it_answers(f"{url}/healthz", agent)
        yield url, agent.pid
        assert agent.poll() is None, "the agent has died"
        agent.send_signal(signal.SIGTERM)
        agent.wait(30)


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


def look(folder: Path, *served: tuple[str, float]) -> tuple[list[RankSnapshot], int]:
    """Look at ranks that serve so many megabytes of these shapes; return the ranks and the agent's peak.

    Of honest ranks that were not heard each is asked alone: records have three seconds, which a busy machine takes.
    """
    sockets = folder / "unhang-test"
    sockets.mkdir()
    honest = [rank for rank, (shape, _) in enumerate(served) if shape == "honest"]
    with ExitStack() as stack:
        for rank, (shape, megabytes) in enumerate(served):
            program = Path(__file__).with_name("hostile_server.py")
            command = (sys.executable, str(program), str(sockets), shape, str(megabytes))
            variables = rank_environment(rank, port=PORT, world_size=len(served))
            stack.enter_context(running(command=command, env=variables))
        url, pid = stack.enter_context(an_agent(folder))
        ranks = list(asked(url))
        for rank in honest:
            ask = partial(asked, url, pid=ranks[rank].identity.pid)
            if ran_out_of_time(told(ranks[rank])):
                (ranks[rank],) = until(ask, lambda seen: not ran_out_of_time(told(seen[0])), seconds=HEARD_SECONDS)
        return ranks, peak_bytes(pid)


def asked(url: str, **of: int) -> tuple[RankSnapshot, ...]:
    """Ask an agent once."""
    question = {"job": f"{HERE}:{PORT}", "stacks": "none", "timeout": 10, **of}
    answer = httpx.get(f"{url}/v1/snapshot", params=question, timeout=60)
    assert answer.status_code == 200, answer.text
    return NodeSnapshot.model_validate_json(answer.content).ranks


def told(rank: RankSnapshot) -> Missing | Trace:
    """What a rank's recorder gave."""
    return rank.recorder


def ran_out_of_time(given: Missing | Trace) -> bool:
    """Was there no time to read it?"""
    return isinstance(given, Missing) and given.reason is Reason.TIMED_OUT


@pytest.mark.ptrace
@pytest.mark.parametrize("megabytes", [7.9, 30.0])
def test_eight_hostile_ranks_leave_the_agent_its_memory(tmp_path: Path, megabytes: float) -> None:
    """Each has another way to make much of little; the ninth rank is honest and is heard."""
    shapes = [shape for shape in SHAPES if shape != "honest"]
    ranks, peak = look(tmp_path, *((shape, megabytes) for shape in shapes), ("honest", 0.5))
    assert len(ranks) == len(shapes) + 1
    assert peak < MEMORY_HIGH, f"{peak / 2**20:.0f} MiB"
    honest = told(ranks[-1])
    assert isinstance(honest, Trace)
    assert len(honest.signatures) > 1000
    for shape, rank in zip(shapes, ranks, strict=False):
        silence = told(rank)
        if megabytes > 8 and shape != "wide":
            assert isinstance(silence, Missing), shape
            assert silence.reason in (Reason.REFUSED, Reason.UNREADABLE, Reason.TIMED_OUT), silence


@pytest.mark.ptrace
def test_a_record_of_twenty_thousand_operations_is_read(tmp_path: Path) -> None:
    """No two of them of one shape: that much may be kept, of two ranks at a time."""
    ranks, peak = look(tmp_path, ("honest", 6.4), ("honest", 6.4))
    for rank in ranks:
        trace = told(rank)
        assert isinstance(trace, Trace), trace
        assert max(trace.op_id) > 19_000
    assert peak < MEMORY_HIGH, f"{peak / 2**20:.0f} MiB"


def write_often(to: BinaryIO, part: bytes, times: int) -> None:
    """Write a part millions of times, without all of that in our memory."""
    for _ in range(times // 100_000):
        to.write(part * 100_000)


def write_tar_of_chained_headers(folder: Path) -> None:
    """Each says that the next tells the name: `tarfile` calls itself for each."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 512
    (folder / "chained.tar").write_bytes((header.tobuf() + b"a" * 512) * 20_000)


def write_tar_of_a_large_header(folder: Path) -> None:
    """A pax header of 100 MB, which `tarfile` reads whole and takes apart."""
    header = tarfile.TarInfo("PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 100_000_256
    with open(folder / "header.tar", "wb") as to:
        to.write(header.tobuf() + b"100000256 comment=")
        to.truncate(100_001_024)


def write_tar_of_a_million(folder: Path) -> None:
    """And a half: empty files, packed to a hundredth, in fifteen parts that are alike."""
    part = gzip.compress(tarfile.TarInfo("a").tobuf() * 100_000, compresslevel=1, mtime=0)
    (folder / "million.tar.gz").write_bytes(part * 15)


def write_gzip_of_a_long_name(folder: Path) -> None:
    """The name of the file in its header has 100 MB."""
    with open(folder / "name.gz", "wb") as to:
        to.write(b"\x1f\x8b\x08\x08" + bytes(6))
        write_often(to, b"n", 100_000_000)


def write_gzip_of_many_members(folder: Path) -> None:
    """A million and a half of them, all empty."""
    (folder / "chained.gz").write_bytes(gzip.compress(b"", mtime=0) * 1_500_000)


def write_zip_of_a_large_table(folder: Path) -> None:
    """A million entries, no file."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    table = entry * 1_000_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, len(table), 4, 0)
    (folder / "table.zip").write_bytes(b"PK\3\4" + table + end)


def write_sparse_logs(folder: Path) -> None:
    """Twenty of 20 GiB each: a line, and then a hole."""
    for number in range(20):
        with open(folder / f"rank{number}.log", "wb") as to:
            to.write(b"step 1\n")
            to.truncate(20 * 2**30)


def write_sparse_dumps(folder: Path) -> None:
    """Fifty that begin as pickles do, and are 20 GiB long."""
    for number in range(50):
        with open(folder / f"dump_{number}", "wb") as to:
            to.write(b"\x80\x02}")
            to.truncate(20 * 2**30)


def write_log_of_short_lines(folder: Path) -> None:
    """Each line takes thirty times its bytes: read whole it would take more memory than there is."""
    (folder / "rank0.log").write_bytes(b"ab\n" * 22_000_000)


def write_json_of_dicts(folder: Path) -> None:
    """100 MB of nothing, as each kind that is JSON."""
    for number, head in enumerate((b'{"entries":[', b'{"schema_version":1,"agent_version":"1","ranks":[')):
        with open(folder / f"dump_{number}.json", "wb") as to:
            to.write(head)
            write_often(to, b"{},", 33_000_000)
            to.write(b"{}]}")


def write_pickle_of_strings(folder: Path) -> None:
    """200 MB of texts of two letters."""
    with open(folder / "dump_1", "wb") as to:
        to.write(b"\x80\x04}\x8c\x07entries](")
        write_often(to, b"\x8c\x02ab", 50_000_000)
        to.write(b"es.")


def write_pickle_without_end(folder: Path) -> None:
    """A key of a dict that is a tuple of twice a tuple of twice a tuple: hashing it never ends."""
    levels = b"".join(b"h" + bytes([at]) * 1 + b"h" + bytes([at]) + b"\x86q" + bytes([at + 1]) for at in range(60))
    (folder / "dump_1").write_bytes(b"\x80\x02)q\x00" + levels + b"0}h\x3c]s.")


def write_pickle_of_one_list_everywhere(folder: Path) -> None:
    """A million entries with one list of 65,536 lists of 64 numbers."""
    shape = b"](" + b"K\x01" * 64 + b"eq\x01"
    sizes = b"](" + shape + b"h\x01" * 65_535 + b"eq\x02"
    entry = b"}(X\x0b\x00\x00\x00input_sizes" + sizes + b"uq\x03"
    (folder / "dump_1").write_bytes(b"\x80\x02}X\x07\x00\x00\x00entries](" + entry + b"h\x03" * 999_000 + b"es.")


FILES = (
    write_tar_of_chained_headers, write_tar_of_a_large_header, write_tar_of_a_million, write_gzip_of_a_long_name,
    write_gzip_of_many_members, write_zip_of_a_large_table, write_sparse_logs, write_sparse_dumps,
    write_log_of_short_lines, write_json_of_dicts, write_pickle_of_strings, write_pickle_without_end,
    write_pickle_of_one_list_everywhere,
)  # fmt: skip
MOST_SECONDS = 60
"""Of a core, on a slow machine."""
TIMEOUT = {write_pickle_without_end: 3}
"""What `--timeout` gives to files that only it ends; the others get two minutes, for machines that are busy besides."""
MOST_BYTES = 3 * 512 * 1024 * 1024
HANGS_SECONDS = 600.0


def judged_in_little_memory(folder: Path, *more: str) -> tuple[dict[str, object], int, float]:
    """Run `unhang diagnose --from` in little memory; return what it says, its status, and what it used of a core."""
    arguments = ("diagnose", "--json", "--from", str(folder), *more)
    with (
        TemporaryFile("w+") as said,
        started(
            arguments, environment=environment(), directory=folder, output=said.fileno(), most_bytes=MOST_BYTES
        ) as command,
    ):
        status = command.wait(HANGS_SECONDS)
        said.seek(0)
        text = said.read()
    assert "Traceback" not in text, text[-2000:]
    return json.loads(text), status, command.cpu_seconds


@pytest.mark.parametrize("write", FILES, ids=lambda write: write.__name__.removeprefix("write_"))
def test_a_hostile_file_costs_itself_alone(tmp_path: Path, write: Callable[[Path], None]) -> None:
    """In 1.5 GiB and a minute of a core; the honest dump beside it is read, and the rest is told in words."""
    write(tmp_path)
    (tmp_path / "honest_rank_7.json").write_text(
        '{"version":"2.10","entries":[{"op_id":1,"profiling_name":"nccl:all_reduce"}]}'
    )
    diagnosis, status, cpu_seconds = judged_in_little_memory(tmp_path, "--timeout", str(TIMEOUT.get(write, 120)))
    assert status in (0, 10, 11, 12)
    assert cpu_seconds < MOST_SECONDS
    assert "honest_rank_7" not in json.dumps({**diagnosis, "read": []}), "it is not among what could not be read"


def test_all_files_together_have_a_deadline(tmp_path: Path) -> None:
    """What was not read by then is told by name, with what to do."""
    write_log_of_short_lines(tmp_path)
    diagnosis, status, _ = judged_in_little_memory(tmp_path, "--timeout", "0.1")
    assert status == 12
    assert "raise it with --timeout" in json.dumps(diagnosis)


ANSWERS = {
    "ranks": (b'{"host":"a","ranks":[%s{}]}', b"{},", 10_000_000),
    "unknown": (b'{"host":"a","x":[%s{}]}', b'{"a":{}},', 3_500_000),
    "missing": (b'{"host":"a","missing":[%s{}]}', b'{"source":"a","reason":"gone"},', 1_000_000),
    "modest": (b'{"host":"a","ranks":[%s{}]}', b"{},", 250_000),
}
"""A frame, what fills it, and how often."""
READ = """
import os, resource, sys
from collector.gather.failures import NoAnswer
from collector.gather.fanout.fanout import read_answer
from shared.wire.snapshot import NodeSnapshot
for kind, (frame, part, times) in eval(sys.argv[1]).items():
    if not os.fork():
        body = frame % (part * times)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            read_answer(body, NodeSnapshot)
        except NoAnswer as error:
            print(kind, error.reason, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, flush=True)
        os._exit(0)
    os.wait()
"""


def test_what_a_registered_agent_sends_is_weighed_before_it_is_read() -> None:
    """30 MB of `{}` for ranks took more than 20 GiB: a complaint for each field that each of them lacks."""
    done = subprocess.run(
        (sys.executable, "-c", READ, repr(ANSWERS)),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    told = [line.split() for line in done.stdout.splitlines()]
    assert [kind for kind, *_ in told] == list(ANSWERS)
    for _, reason, kibibytes in told:
        assert reason in (Reason.REFUSED, Reason.UNREADABLE)
        assert int(kibibytes) < 256 * 1024
