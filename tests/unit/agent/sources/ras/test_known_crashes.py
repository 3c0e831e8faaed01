"""Which NCCL a rank has, and when it is not asked."""

from pathlib import Path
from typing import Any

import pytest

from agent.proc.library_versions import NcclVersion, NcclVersions
from agent.proc.procfs import ProcFs
from agent.sources.ras.known_crashes import Signs, refusal, signs_of
from shared.missing import Missing, Reason
from shared.wire.snapshot import Exited, Identity, Process, RankSnapshot
from shared.wire.stacks import Frame, Stacks, Thread
from tests.build.processes.ports import free_port
from tests.system.ras.ranks import ras_rank


@pytest.mark.ptrace
@pytest.mark.parametrize(
    ("name", "content", "version"),
    [
        ("libnccl.so.2.26.2", b"", (2, 26, 2)),
        ("libnccl.so.2", b"\0" * 3_000_000 + b"NCCL version 2.28.9+cuda12.9\0", (2, 28, 9)),
        ("libnccl.so.2", b"\0" * (1024 * 1024 - 9) + b"NCCL version 2.30.7 compiled with CUDA", (2, 30, 7)),
        ("libnccl.so.2", b"\0" * 17_000_000 + b"NCCL version 2.28.9+cuda12.9\0", None),
        ("libnccl-net.so.2.26.2", b"", None),
    ],
)
def test_versions_are_read_from_the_mapped_library(
    tmp_path: Path, name: str, content: bytes, version: tuple[int, int, int] | None
) -> None:
    """From its name, else from what it would print, which stands before the device code."""
    library = tmp_path / name
    library.write_bytes(content or b"\0" * 4096)
    with ras_rank(tmp_path, port=free_port(), library=str(library)) as process:
        assert NcclVersions().of(ProcFs(), process.pid) == (None if version is None else NcclVersion(*version))


def look_of(*frames: Frame, age: float = 600.0, state: Any = "S") -> RankSnapshot:
    nothing = Missing(source="x", reason=Reason.NOT_FOUND)
    stacks = Stacks(pid=7, frames=frames, threads=(Thread(tid=7, frames=tuple(range(len(frames)))),))
    return RankSnapshot(
        identity=Identity(rank=3, started_at=1000.0),
        looked_at_ns=int((1000.0 + age) * 1e9),
        process=Process(pid=7, state=state),
        stacks=stacks,
        fds=nothing,
        logs=nothing,
        recorder=nothing,
    )


WORKING = look_of(Frame("train", "/home/ada/train.py", 4))
MAKING = look_of(Frame("new_group", "torch/distributed/distributed_c10d.py", 5210))
MAKING_NATIVE = look_of(Frame("ncclCommInitRankConfig", "libnccl.so.2.29.2", 0, native=True))
YOUNG = look_of(age=20.0)
STOPPED = look_of(state="T")


@pytest.mark.parametrize(
    ("version", "look", "refused"),
    [
        ("2.24.3", WORKING, False),
        ("2.24.3", MAKING, True),
        ("2.26.2", YOUNG, True),
        ("2.26.5", STOPPED, False),
        ("2.27.3", WORKING, True),
        ("2.27.5", WORKING, False),
        ("2.27.5", YOUNG, False),
        ("2.27.5", STOPPED, True),
        ("2.28.9", MAKING_NATIVE, True),
        ("2.29.2", STOPPED, False),
        ("2.31.2", MAKING, True),
        ("2.31.2", YOUNG, False),
    ],
)
def test_when_ras_is_not_asked(version: str, look: RankSnapshot, refused: bool) -> None:
    why = refusal(NcclVersion(*map(int, version.split("."))), signs_of([look], []))
    assert (why is not None) == refused


def test_an_ended_process_is_a_gap() -> None:
    assert "process 9 has exited" in signs_of([WORKING], [Exited(pid=9)]).gaps
    assert refusal(None, Signs()) is not None
