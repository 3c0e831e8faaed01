"""Good input of every kind: what parsers understand, to be damaged. Hosts, jobs and addresses are made up."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from agent.proc.memory.torch_layouts import read_layouts
from shared.missing import Missing, Reason
from shared.wire.snapshot import NodeSnapshot, RankList
from shared.wire.survey_write import survey_of
from tests.build.agents.fake_agents import case_ranks
from tests.build.jobs.checked_jobs import rank
from tests.build.processes.recorder_image import Operation, RecorderImage
from tests.unit.agent.proc.memory.test_symbols import elf_with_tables, symbol
from tests.unit.agent.tools.test_core_file import STATUS, made_up

_DATA = Path(__file__).parents[2] / "data"

_RECORDED = ("cases/missing_rank2/_dump_0", "cases/rank0_wrong_op/_dump_0", "gloo/wrong_op/trace_node-a_0")

DUMPS = tuple((_DATA / path).read_bytes() for path in _RECORDED)


def _text(name: str) -> bytes:
    return (_DATA / "fuzz" / f"{name}.txt").read_bytes()


_VALUES: dict[str, Any] = json.loads((_DATA / "fuzz" / "values.json").read_bytes())

TRACES: tuple[dict[str, Any], ...] = (_VALUES["trace"],)
PYSPY, GROUPS, RAS, TARGETS, PODS = (_VALUES[name] for name in ("pyspy", "groups", "ras", "targets", "pods"))
WATCH, WATCH_ENDED = tuple(_VALUES["watch"]), _VALUES["watch_ended"]

GDB, GROUPED, STRACE, PYSPY_TEXT, FAULTHANDLER, PYSTACK, RAS_TEXT, MAPS = map(
    _text, ("gdb", "grouped", "strace", "pyspy", "faulthandler", "pystack", "ras", "maps")
)
LOGS, KERNEL_FILES = (_text("log_nccl"), _text("log_torch")), (_text("kernel_syslog"), _text("kernel_dmesg"))
KERNEL, COMMANDS = tuple(_text("kernel").splitlines()), tuple(_text("commands").splitlines())
NET_TCP, NET_UNIX, MOUNTINFO, TARGETS_YAML = map(_text, ("net_tcp", "net_unix", "mountinfo", "targets_yaml"))
HTTP = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"entries":1}'

_FILE = struct.pack("<QQQQQ", 1, 4096, 0x400000, 0x401000, 0) + b"/usr/bin/python3\0"
CORE = made_up((1, STATUS), (3, bytes(136)), (6, struct.pack("<QQ", 3, 0x400040)), (0x46494C45, _FILE))


def _snapshot() -> NodeSnapshot:
    silent = Missing(source="gpu", reason=Reason.NOT_FOUND, detail="no GPU")
    ranks = case_ranks("missing_rank2", (0, 1), host="node1")
    told = tuple(each.model_copy(update={"setup": rank(each.identity.rank).setup}) for each in ranks)
    return NodeSnapshot(host="node1", ranks=told, missing=(silent,))


SNAPSHOT: dict[str, Any] = json.loads(_snapshot().model_dump_json())
SURVEY: dict[str, Any] = json.loads(survey_of(_snapshot()).model_dump_json())
RANK_LIST: dict[str, Any] = json.loads(
    RankList(host="node1", ranks=tuple(rank.identity for rank in _snapshot().ranks)).model_dump_json()
)


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in (("snapshots/node1.json", json.dumps(SNAPSHOT).encode()), ("../evil_1", DUMPS[0])):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("dump_rank_1", DUMPS[0])
        archive.writestr("manifest.json", '{"unhang_bundle": 1, "files": []}')
    return out.getvalue()


FILES = (
    _tar(),
    gzip.decompress(_tar()),
    _zip(),
    gzip.compress(json.dumps(SNAPSHOT).encode()),
    json.dumps(SNAPSHOT).encode(),
    b'{"unhang_bundle": 1, "files": [], "expected": {"job": null}}',
    *DUMPS[:1],
    PYSPY_TEXT,
    FAULTHANDLER,
    RAS_TEXT,
    *LOGS,
    *KERNEL_FILES,
)


def _recorder_in_memory() -> bytes:
    """A flight record as it lies in memory, with members, marks and stacks; its address stands at the beginning."""
    image = RecorderImage(read_layouts().layouts[-1])
    pointer = image.allocate(8)
    code = image.code_object("3.11", "/opt/train.py", "train", b"\xe8\x04\xd9\x04\x0c")
    operations = [Operation(n, sequence=n + 1, stack=((code, 2), (code, 0))) for n in range(4)]
    members = {("0", "default_pg"): (0, 1), ("1", "a description that is long"): (1, 0)}
    image.number(pointer, image.recorder(operations, statuses={0: (4, 4, 3), 1: (-1, -1, -1)}, members=members))
    return bytes(image.data)


ELF = elf_with_tables(symbol(1, 5) + symbol(6, 9), b"\0made\0hidden\0")
RECORDER_IN_MEMORY = _recorder_in_memory()
