"""Records that are copied from the memory of real ranks: whatever state these are in, and equal to what they say."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.memory.symbol_tables import SymbolTables
from agent.proc.procfs import ProcFs
from agent.sources.look_context import LookContext
from agent.sources.recorder.memory.copy_records import copy_records
from agent.sources.recorder.memory.group_members import find_members
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.memory.marks import GroupMark, MarkReader
from agent.sources.recorder.merge import merge
from agent.sources.recorder.recorder_source import RecorderSource, _Asked, ask_record
from agent.sources.recorder.unix_server import find_unix_server
from agent.sources.source import LookDepth
from agent.tools.memory_budget import Memory
from shared.missing import Reason
from shared.wire.trace import COLUMNS, Origin, State, Trace
from tests.build.processes.looking import ask_source, rank_of
from tests.build.processes.processes import until
from tests.system.live.jobs import Job

pytestmark = [pytest.mark.live, pytest.mark.ptrace]

LOCATOR = RecorderLocator()


def from_memory(pid: int) -> Trace:
    """Copy a rank's record."""
    records = copy_records(ProcFs(), rank_of(pid), LOCATOR, Deadline(60))
    return merge([record.trace() for record in records])


def from_server(pid: int) -> Trace:
    """Ask a rank's worker server for it."""
    server = find_unix_server(rank_of(pid), ProcFs())
    assert server is not None
    return ask_record(server, Memory(), Deadline(60))


def marks_of(pid: int) -> dict[str, GroupMark]:
    """Return a rank's marks by the descriptions of its groups."""
    return {mark.description: mark for mark in MarkReader(LOCATOR).read(ProcFs(), rank_of(pid), Deadline(60))}


def told_alike(trace: Trace) -> dict[str, Any]:
    """Return what both ways tell: the server leaves out the stacks of the calls."""
    columns = {name: list(getattr(trace, name)) for name in COLUMNS if name != "call_site"}
    marks = {trace.groups[mark.group].name: mark.model_copy(update={"group": 0}) for mark in trace.marks}
    return {
        **columns,
        "groups": trace.groups,
        "signatures": trace.signatures,
        "marks": marks,
        "truncated": trace.truncated,
        "active_only": trace.active_only,
        "library": trace.library,
    }


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """A job whose rank 2 sleeps in user code, with our probe in it."""
    with Job("asleep_before_collective", directory=tmp_path_factory.mktemp("hung"), probe=True, forked=True) as job:
        yield job


def test_memory_and_server_tell_the_same(hung: Job) -> None:
    """Of every rank of a hung job: every field of every operation."""
    for pid in hung.ranks.values():
        remembered, said = from_memory(pid), from_server(pid)
        assert len(remembered) > 0
        assert told_alike(remembered) == told_alike(said)


def test_call_sites_stand_beside_the_record(hung: Job) -> None:
    """File, function and line of the user's call, which no server tells."""
    trace = from_memory(hung.ranks[0])
    last = trace.record(len(trace) - 1)
    assert last.state is State.ISSUED
    frames = {frame.function: frame for frame in last.call_site}
    assert "asleep_before_collective.py" in {Path(frame.file).name for frame in last.call_site}
    assert frames["train"].file.endswith("rig.py")
    text = Path(frames["train"].file).read_text().splitlines()[frames["train"].line - 1]
    assert text.strip() == "dist.all_reduce(gradients)"


def test_source_reads_memory_first(hung: Job) -> None:
    """The server is asked as well where all is asked for; the two agree, and members come from the probe's list."""
    rank = rank_of(hung.ranks[1])
    plain: Trace = ask_source(RecorderSource(), rank)
    full: Trace = ask_source(RecorderSource(), rank, LookDepth(full=True), seconds=60)
    assert plain.origin == (Origin.MEMORY,)
    assert full.origin == (Origin.MEMORY, Origin.WORKER_SERVER)
    assert full.contradiction == ""
    assert "0-3" in [group.members for group in plain.groups]
    assert len(full) == len(from_memory(rank.stat.pid))


def test_members_are_those_that_the_probe_has_listed(hung: Job) -> None:
    """Of every group, the world too, in whose objects the ranks stand; of a rank that is somebody else, none."""
    for number, pid in hung.ranks.items():
        plain = rank_of(pid)
        rank = plain._replace(identity=plain.identity.model_copy(update={"rank": number, "world_size": 4}))
        asked = _Asked(rank, LookContext(ProcFs(), "here"), LookDepth(), Deadline(60))
        table = RecorderSource()._listed_members(asked)
        names = frozenset((group.name, group.description) for group in from_memory(pid).groups)
        assert len(names) == 2
        listed = {name: members for name, members in table.items() if name in names}
        assert find_members(ProcFs(), rank, LOCATOR, names, Deadline(60)) == listed
        other = plain._replace(identity=plain.identity.model_copy(update={"rank": number + 4, "world_size": 8}))
        assert find_members(ProcFs(), other, LOCATOR, names, Deadline(60)) == {}


def test_marks(hung: Job) -> None:
    """The rank that sleeps is one operation behind in the world, and all are equal in the pairs."""
    marks = {number: marks_of(pid) for number, pid in hung.ranks.items()}
    issued = {number: of_rank["default_pg"].issued for number, of_rank in marks.items()}
    assert issued[2] is not None
    assert {issued[number] for number in (0, 1, 3)} == {issued[2] + 1}
    assert {(m["default_pg"].completed, m["default_pg"].operation) for m in marks.values()} == {
        (issued[2], "gloo:all_reduce")
    }
    assert all(m["default_pg"].issued_ns > 1e18 for m in marks.values())


@pytest.mark.parametrize("program", ["stopped_rank", "gil_held", "endless_loop"])
def test_ranks_that_cannot_answer(program: str, tmp_path: Path) -> None:
    """Nobody prepared them; one is stopped, or holds the GIL, or spins: its record is as complete as the others'."""
    with Job(program, directory=tmp_path, forked=True, recorded=True) as job:
        pid = job.ranks[2]
        if program == "stopped_rank":
            until(lambda: ProcFs().stat(pid).state, lambda state: state in "Tt")
        found = {number: ask_source(RecorderSource(), rank_of(pid)) for number, pid in job.ranks.items()}
        assert ProcFs().stat(pid).state in ("T" if program == "stopped_rank" else "RSD")
    assert {trace.origin for trace in found.values()} == {(Origin.MEMORY,)}
    last = {
        number: max(r.collective_seq for r in trace.records() if r.group.description == "default_pg")
        for number, trace in found.items()
    }
    assert {last[number] for number in (0, 1, 3)} == {last[2] + 1}


def test_job_that_runs(tmp_path: Path) -> None:
    """Read a hundred times while it writes: every record is whole, in order, and no older than the one before."""
    with Job("healthy", directory=tmp_path, ranks=2, forked=True, environment={"TORCH_FR_BUFFER_SIZE": "16"}) as job:
        pid, reader = job.ranks[0], MarkReader(LOCATOR)
        newest = 0
        for _ in range(100):
            trace = from_memory(pid)
            created = list(trace.created_ns)
            assert created == sorted(created)
            assert 1 <= len(trace) <= 16
            for group in set(trace.group):
                sequences = [n for n, of in zip(trace.collective_seq, trace.group, strict=True) if of == group]
                assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
            assert {signature.op for signature in trace.signatures} == {"all_reduce"}
            marks = reader.read(ProcFs(), rank_of(pid), Deadline(10))
            assert len(marks) == 2
            assert max(mark.issued_ns for mark in marks) >= created[-1] >= newest
            newest = created[-1]
        until(lambda: from_memory(pid).created_ns[-1], lambda last: last > newest)


def test_recorder_that_is_switched_off(tmp_path: Path) -> None:
    """The answer says with which variable it is switched on."""
    with Job("healthy", directory=tmp_path, ranks=2, forked=True) as job:
        rank: Rank = rank_of(job.ranks[0], TORCH_FR_BUFFER_SIZE="0")
        with pytest.raises(Exception, match=r"switched off by TORCH_FR_BUFFER_SIZE=0; .* 2000$"):
            ask_source(RecorderSource(), rank)
        os.kill(rank.stat.pid, signal.SIGSTOP)
        with pytest.raises(Exception, match="switched off"):
            ask_source(RecorderSource(), rank)


@pytest.mark.parametrize("variable", ["TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"])
def test_server_of_a_recorder_that_is_switched_off(variable: str, tmp_path: Path) -> None:
    """It answers with a record without operations, which tells nothing of the rank."""
    with Job("healthy", directory=tmp_path, ranks=2, forked=True, probe=True, environment={variable: "0"}) as job:
        pid = job.ranks[0]
        assert len(from_server(pid)) == 0
        for question in (LookDepth(), LookDepth(full=True)):
            with pytest.raises(Unavailable, match="switched off") as caught:
                ask_source(RecorderSource(), rank_of(pid), question, seconds=60)
            assert caught.value.reason is Reason.NOT_ENABLED


class NoSymbols(SymbolTables):
    """As of libraries that a vendor has stripped."""

    def find(self, *_: object, **__: object) -> dict[bytes, int]:
        """Know none."""
        return {}


def test_stripped_library(hung: Job) -> None:
    """Without any symbol: the one thing that looks like a recorder is it."""
    locator = RecorderLocator(symbols=NoSymbols())
    for pid in hung.ranks.values():
        (copied,) = copy_records(ProcFs(), rank_of(pid), locator, Deadline(60))
        assert told_alike(copied.trace()) == told_alike(from_memory(pid))
