"""Every parser of foreign bytes, with good input to damage."""

import re
import socket
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from agent.deadline import Deadline
from agent.proc.file_locks import holders_among, parse_locks
from agent.proc.memory.elf_image import build_id_in_file
from agent.proc.memory.elf_symbols import find_vtable
from agent.proc.memory.mappings import loaded_files, parse_mappings, writable_data
from agent.proc.memory.symbol_tables import find_symbols
from agent.proc.memory.torch_layouts import read_layouts
from agent.proc.mounts import Mounts
from agent.proc.procfs import ProcFs, parse_stat
from agent.proc.sock_diag import parse_answer
from agent.proc.socket_tables import Sockets
from agent.sources.kernel_log import parse_record
from agent.sources.recorder.memory.copy_records import NEWEST, copy_recorder
from agent.sources.recorder.process_groups import parse_groups
from agent.sources.recorder.worker_server import _receive
from agent.tools.core_notes import read_notes
from agent.tools.memory_budget import Memory
from agent.tools.strace import parse_strace
from collector.agents.kubernetes.pods import parse_change, parse_pods
from collector.agents.prometheus_targets import parse_targets
from collector.agents.slurm import parse_squeue
from collector.agents.static_list import read_agents_file
from collector.align.expected import Expected
from collector.files.kernel_files import read_kernel_text, with_kernel_logs
from collector.files.read_directory import read_recorded
from collector.gather.answers import read_look
from collector.gather.failures import NoAnswer
from collector.gather.fanout.fanout import read_answer
from collector.hostlists import parse_hostlist
from collector.judge.verdict import diagnose
from collector.looks.next_looks import next_looks
from collector.show.text.markdown import render_markdown
from collector.show.text.text import render_text
from shared.formats.grouped_stacks import is_grouped, parse_grouped_stacks
from shared.formats.kernel_lines import read_kernel_frame, read_kernel_line
from shared.formats.logs.parse import find_events
from shared.formats.ras.parse import parse_ras
from shared.formats.recorder.dump import parse_dump, rank_of_file_name
from shared.formats.recorder.safe_pickle import load_plain
from shared.formats.stack_dumps import (
    parse_faulthandler,
    parse_gdb_text,
    parse_pyspy_json,
    parse_pyspy_text,
    parse_pystack_text,
)
from shared.formats.stack_parts import parts_of
from shared.rank_sets import unfold
from shared.redaction.redact import redact
from shared.server.addresses import parse_address, parse_networks
from shared.wire.snapshot import NodeSnapshot, RankList
from shared.wire.survey_read import SurveyReader
from tests.build.processes.proc_trees import stat_line
from tests.build.processes.recorder_image import BASE, memory_of
from tests.system.fuzz import seeds
from tests.system.fuzz.damage import Writer, as_json, as_pickle
from tests.system.fuzz.verdicts import check_shown


class Target(NamedTuple):
    """A parser, and bytes that it understands."""

    name: str
    parse: Callable[[bytes], Any]
    seeds: tuple[bytes, ...]
    values: tuple[Any, ...] = ()
    """The same as values, where it reads JSON or pickles: their parts are exchanged as well."""
    writer: Writer = as_json


def text_of(parse: Callable[[str], Any]) -> Callable[[bytes], Any]:
    """Let a parser of text read bytes, as the services do."""
    return lambda data: parse(data.decode(errors="replace"))


def _events(data: bytes) -> Any:
    lines = [line[:2000] for line in data.decode(errors="replace").splitlines()]
    return tuple(find_events(lines, path="/var/log/train.log", rank=None))


def _answer(data: bytes) -> Any:
    """What a worker server says, over a real socket, until it hangs up."""
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        try:
            one.send(data[:100_000])
        except BlockingIOError:
            pass
        one.shutdown(socket.SHUT_WR)
        with Memory().receiving() as receipt:
            return _receive(other, Deadline(2.0), receipt)


def _sockets(data: bytes) -> Any:
    sockets = Sockets(ProcFs(Path("/nowhere")), 1)
    for kind in ("tcp", "tcp6", "unix"):
        sockets.add(kind, data)
        found = [sockets.get(inode) for inode in (43210, 32109, 0)]
        sockets.listening(8080)
        sockets.other_end(43210)
    return [entry for entry in found if entry is not None]


def _recorder_in_memory(data: bytes) -> Any:
    """Every pointer, length and number that a process may have in the place of its flight recorder."""
    with memory_of(data) as memory:
        address = memory.word(BASE)
        return copy_recorder(memory, address, read_layouts().layouts[-1:], "3.11", NEWEST).trace()


def _maps(data: bytes) -> Any:
    regions = tuple(parse_mappings(data))
    writable_data(regions)
    return loaded_files(regions, re.compile(r"lib\w+\.so"))


def _elf(data: bytes) -> Any:
    """A library of somebody's choice, on disk and in memory."""

    def read(at: int, size: int) -> bytes:
        return data[at : at + size] if at >= 0 and size >= 0 else b""

    found = find_symbols(read, len(data), [b"made", b"hidden"], Deadline(5.0))
    return build_id_in_file(read), find_vtable(read, 0, b"_ZTV7Derived"), *found.items()


def _core(data: bytes) -> Any:
    with tempfile.TemporaryFile() as core:
        core.write(data)
        core.flush()
        return read_notes(core.fileno())


def _kernel_file(data: bytes) -> Any:
    """Lines of every tool, given to a node and judged, whether or not they begin like a kernel's log."""
    text = read_kernel_text("dmesg_node7", data)
    snapshot = NodeSnapshot.model_validate(seeds.SNAPSHOT)
    snapshots, missing = with_kernel_logs(
        (snapshot.model_copy(update={"host": "node7", "kernel_events": None}),), [text], written_at=1.7e9
    )
    return (*missing, diagnose(snapshots, Expected(job=None)))


def _unix_peers(data: bytes) -> Any:
    found: dict[int, int] = {}
    parse_answer(data, found)
    return found


def _mounts(data: bytes) -> Any:
    mounts = Mounts(data.decode(errors="replace"))
    return mounts.by_id(36), mounts.type_of_path("/mnt/data/x")


def _snapshot(data: bytes) -> Any:
    """What an agent says is judged and shown, whatever it says."""
    snapshot = _read(data, NodeSnapshot)
    diagnosis = diagnose((snapshot,), Expected(job=None))
    check_shown(render_text(diagnosis, colour=False, width=100))
    check_shown(render_markdown(diagnosis))
    return diagnosis


def _survey(data: bytes) -> Any:
    """The same of a survey, whose tables are texts of their own."""
    try:
        look = read_look(data, SurveyReader())
    except NoAnswer as error:
        check_shown(str(error))
        raise
    next_looks((look.snapshot,), Expected(job=None))
    return diagnose((look.snapshot,), Expected(job=None))


def _read(data: bytes, kind: Any) -> Any:
    try:
        return read_answer(data, kind)
    except NoAnswer as error:
        check_shown(str(error))
        raise


def _file(data: bytes) -> Any:
    """Whatever a file holds: it is read, told as missing, or passed over, and what was read is judged."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "dump_rank_3").write_bytes(data)
        recorded = read_recorded(Path(folder))
    assert len(recorded.missing) < 2000
    return (*recorded.snapshots, diagnose(recorded.snapshots, Expected(job=None)))


TARGETS = (
    Target("recorder", parse_dump, (*seeds.DUMPS, *map(as_json, seeds.TRACES)), seeds.TRACES, as_pickle),
    Target("recorder_json", parse_dump, tuple(map(as_json, seeds.TRACES)), seeds.TRACES),
    Target("pickle", load_plain, tuple(dump for dump in seeds.DUMPS if dump.startswith(b"\x80"))),
    Target("file_name", text_of(rank_of_file_name), (b"nccl_trace_rank_node02_5", b"dump.3.pkl")),
    Target(
        "pyspy_json",
        lambda data: parse_pyspy_json(data, native=True, paused=False),
        (as_json(seeds.PYSPY),),
        (seeds.PYSPY,),
    ),
    Target("pyspy_text", text_of(parse_pyspy_text), (seeds.PYSPY_TEXT,)),
    Target("faulthandler", text_of(parse_faulthandler), (seeds.FAULTHANDLER,)),
    Target("pystack", text_of(parse_pystack_text), (seeds.PYSTACK,)),
    Target("gdb", text_of(parse_gdb_text), (seeds.GDB,)),
    Target("stack_parts", text_of(parts_of), (seeds.GDB, seeds.PYSPY_TEXT)),
    Target("grouped_stacks", text_of(lambda text: (is_grouped(text), parse_grouped_stacks(text))), (seeds.GROUPED,)),
    Target("strace", text_of(lambda text: parse_strace(text.splitlines(), pid=7, seconds=1.0)), (seeds.STRACE,)),
    Target("core", _core, (seeds.CORE,)),
    Target("recorder_in_memory", _recorder_in_memory, (seeds.RECORDER_IN_MEMORY,)),
    Target("maps", _maps, (seeds.MAPS,)),
    Target("elf", _elf, (seeds.ELF,)),
    Target("log_lines", _events, seeds.LOGS),
    Target("kernel_line", text_of(read_kernel_line), seeds.KERNEL),
    Target(
        "kernel_frame",
        text_of(read_kernel_frame),
        (b" __mlx5_ib_dereg_mr+0x379/0x5d0 [mlx5_ib]",),
    ),
    Target("kernel_record", parse_record, (b"6,1234,5678901,-;Out of memory: Killed process 42\n X=y",)),
    Target("kernel_file", _kernel_file, seeds.KERNEL_FILES),
    Target("redaction", text_of(redact), seeds.COMMANDS),
    Target("ras", parse_ras, (seeds.RAS_TEXT, as_json(seeds.RAS)), (seeds.RAS,)),
    Target("groups", parse_groups, (as_json(seeds.GROUPS),), (seeds.GROUPS,)),
    Target("worker_server", _answer, (seeds.HTTP,)),
    Target("stat", parse_stat, (stat_line(20, 1, "py (thon) 3", "S", 200).encode(),)),
    Target("sockets", _sockets, (seeds.NET_TCP, seeds.NET_UNIX)),
    Target(
        "locks",
        text_of(lambda text: holders_among(parse_locks(text), 43)),
        (b"2: FLOCK  ADVISORY  WRITE 42 08:01:132 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 43 08:01:132 0 EOF\n",),
    ),
    Target(
        "unix_peers", _unix_peers, (struct.pack("=IHHIIBBBBIIIHHI", 40, 20, 2, 1, 0, 1, 1, 1, 0, 7, 0, 0, 8, 2, 9),)
    ),
    Target("mounts", _mounts, (seeds.MOUNTINFO,)),
    Target("snapshot", _snapshot, (as_json(seeds.SNAPSHOT),), (seeds.SNAPSHOT,)),
    Target("survey", _survey, (as_json(seeds.SURVEY),), (seeds.SURVEY,)),
    Target("rank_list", lambda data: _read(data, RankList), (as_json(seeds.RANK_LIST),), (seeds.RANK_LIST,)),
    Target("hostlist", text_of(parse_hostlist), (b"node[01-16,20]:8471,gpu[1,3-5]", b"http://[::1]:8471/base, n7")),
    Target("agents_file", lambda data: read_agents_file(data, name="agents"), (b"# all\nnode[1-3]\n\nn7:9 # x\n",)),
    Target("targets", lambda data: parse_targets(data, source="x"), (as_json(seeds.TARGETS),), (seeds.TARGETS,)),
    Target("targets_yaml", lambda data: parse_targets(data, source="x", yaml=True), (seeds.TARGETS_YAML,)),
    Target("pods", lambda data: [p.place() for p in parse_pods(data).items], (as_json(seeds.PODS),), (seeds.PODS,)),
    Target("watch", parse_change, tuple(map(as_json, seeds.WATCH)), (*seeds.WATCH, seeds.WATCH_ENDED)),
    Target(
        "squeue", text_of(lambda text: list(parse_squeue(text))), (b"4242|node[01-16,20]\n4243|r[1-2]n[0-3]\n9|\n",)
    ),
    Target("ranks", text_of(lambda text: list(unfold(text))[:10]), (b"0-1,3,5-9",)),
    Target("address", text_of(parse_address), (b"[::1]:8471", b"node1:8471")),
    Target("networks", text_of(parse_networks), (b"10.0.0.0/8,192.168.1.5 fe80::/10",)),
    Target("file", _file, seeds.FILES),
)
