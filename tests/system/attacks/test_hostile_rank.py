"""A rank that is hostile wherever a source looks: each trick costs one source its part, and no neighbour anything."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.agent import Agent, RankFilter
from agent.settings import AgentSettings
from agent.sources.source import LookDepth
from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from collector.show.text.text import render_text
from shared.missing import Missing, Reason
from shared.wire.snapshot import Fds, NodeSnapshot, Process, RankSnapshot
from shared.wire.stacks import Stacks
from tests.build.processes.processes import HERE, SLEEP, rank_environment, running, until

pytestmark = [pytest.mark.ptrace, pytest.mark.slow]

PORT = 29423

HOSTILE = """
import ctypes, mmap, os, socket, sys, threading, time
folder = sys.argv[1]
ctypes.CDLL(None).prctl(15, b"x) R 1 1\\n(", 0, 0, 0)

server = socket.socket(socket.AF_UNIX)
server.bind(folder + "/recorder.sock")
server.listen()
def answer_without_end():
    while True:
        channel, _ = server.accept()
        try:
            channel.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n{")
            while True:
                channel.sendall(b"[" * 65536)
        except OSError:
            pass
threading.Thread(target=answer_without_end, daemon=True, name="\\x1b[2J" * 3).start()

os.chdir(folder + "/" + "/".join(["y" * 250] * 8))
kept = [open("shard\\n\\x1b[31m", "w") for _ in range(300)]
with open(folder + "/torch/lib/libtorch_cpu.so", "rb") as library:
    mapped = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)

def descend(depth):
    if depth:
        return again(depth - 1)
    print("ready", flush=True)
    pipe = os.open(folder + "/pipe", os.O_RDWR)
    os.dup2(pipe, 1), os.dup2(pipe, 2)
    time.sleep(600)
again = type(descend)(descend.__code__.replace(co_name="z" * 20000, co_filename="\\x1b[31m" * 3000), globals())
again(800)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the hostile rank has laid out: FIFOs and links where files are looked for."""
    (tmp_path / "torch/lib").mkdir(parents=True)
    (tmp_path / "torch/lib/libtorch_cpu.so").write_bytes(b"\0" * 4096)
    for fifo in ("torch/version.py", "pipe", "nccl.log"):
        os.mkfifo(tmp_path / fifo)
    tmp_path.joinpath(*["y" * 250] * 8).mkdir(parents=True)
    (tmp_path / "error.json").symlink_to("/etc/shadow")
    return tmp_path


@pytest.fixture
def taken(folder: Path) -> Iterator[NodeSnapshot]:
    """One look at such a rank and its neighbour, with everything asked for; how long it takes is bounded.

    A machine that is too busy to be listed in time has nobody seen, and is asked again.
    """
    variables = {
        "TORCH_WORKER_SERVER_SOCKET": f"{folder}/recorder.sock",
        "NCCL_DEBUG_FILE": f"{folder}/nccl.log",
        "TORCHELASTIC_ERROR_FILE": f"{folder}/error.json",
        "NCCL_SOCKET_IFNAME": "\x1b[2J" * 20_000,
        "NCCL_RAS_ADDR": "localhost:99999999",
        "CUDA_VISIBLE_DEVICES": "," * 100_000,
        "TORCHELASTIC_RESTART_COUNT": "9" * 5000,
    }
    agent = Agent(AgentSettings(host_name="here", beat_seconds=0))
    hostile = rank_environment(1, port=PORT, **variables)
    command = (sys.executable, "-c", HOSTILE, str(folder))
    with running(SLEEP, env=rank_environment(0, port=PORT), stderr=-3), running(command=command, env=hostile):
        yield until(lambda: look(agent), lambda seen: not is_too_busy(seen), 120.0)
    agent.stop()


def look(agent: Agent) -> NodeSnapshot:
    """Look once, in the time that a look may take and some more."""
    begun = time.monotonic()
    seen = agent.snapshot(RankFilter(job=f"{HERE}:{PORT}"), LookDepth(full=True), ras=True)
    assert time.monotonic() - begun < 30
    return seen


def is_too_busy(seen: NodeSnapshot) -> bool:
    """Was the machine not even listed in time? Whoever blocks the listing is named, and the others are seen."""
    late = [missing for missing in seen.missing if (missing.source, missing.reason) == ("ranks", Reason.TIMED_OUT)]
    return not seen.ranks and any("takes too long" in missing.detail for missing in late)


def silent(rank: RankSnapshot) -> dict[str, Reason]:
    """Which sources have nothing of a rank, and why."""
    parts = (rank.process, rank.stacks, rank.fds, rank.logs, rank.recorder, rank.setup)
    return {part.source: part.reason for part in parts if isinstance(part, Missing)}


def test_each_trick_costs_one_missing_and_no_neighbour_anything(taken: NodeSnapshot) -> None:
    """Its recorder without end, its logs that are FIFOs and links; what /proc tells of it is told all the same."""
    well, hostile = taken.ranks
    assert silent(well).keys() == {"logs", "recorder"}, "standard output is a pipe, and there is no probe"
    told = silent(hostile)
    assert told.pop("logs") is Reason.NOT_FOUND
    assert told.pop("recorder") in (Reason.REFUSED, Reason.UNREADABLE, Reason.TIMED_OUT)
    assert told.keys() <= {"stacks"}
    assert isinstance(hostile.process, Process)
    assert isinstance(hostile.fds, Fds)
    assert hostile.fds.total > 300


def test_what_a_hostile_rank_says_can_be_judged_and_shown(taken: NodeSnapshot) -> None:
    """Bounded, and without a character that would steer a terminal."""
    travelled = taken.model_dump_json()
    assert len(travelled) < 40_000_000
    diagnosis = diagnose([NodeSnapshot.model_validate_json(travelled)], Expected())
    assert "\x1b" not in render_text(diagnosis, colour=False, width=100)
    stacks = taken.ranks[1].stacks
    assert isinstance(stacks, Missing | Stacks)
