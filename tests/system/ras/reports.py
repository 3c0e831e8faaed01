"""Writes RAS reports of made-up jobs, byte for byte in the layouts of NCCL's versions."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

OPS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
_COMMA_BEFORE_MISSING_STATUS = re.compile(r',(\n *"status": {\n *"unresponsive")')
_WORDS = {"NOCOMM", "INIT", "RUNNING", "FINALIZE", "ABORT"}


@dataclass(frozen=True)
class Member:
    """One rank of a communicator. `status` is NCCL's word, or `silent` or `dead`."""

    rank: int
    host: str = "10.3.0.14"
    pid: int = 0
    status: str = "RUNNING"
    counts: dict[str, int] = field(default_factory=dict)
    error: int = 0
    nvml: int | None = None

    @property
    def process(self) -> int:
        return self.pid or 4000 + self.rank

    @property
    def is_there(self) -> bool:
        return self.status in _WORDS - {"NOCOMM"}

    @property
    def gpu(self) -> str:
        return str(self.rank % 8) if self.nvml is None else f"{self.rank % 8} (NVML {self.nvml})"

    @property
    def home(self) -> str:
        return f"GPU {self.gpu} managed by process {self.process} on node {self.host}"


@dataclass(frozen=True)
class Comm:
    """One communicator."""

    members: tuple[Member, ...]
    hash: int = 0x9D2F00C1A7E45B33


def comm(counts: Sequence[int], *, op: str = "AllReduce", host: str = "10.3.0.14", **changed: Member) -> Comm:
    """One communicator whose ranks have launched `op` so many times; `r3=Member(3, …)` is another rank 3."""
    members = (
        changed.get(f"r{rank}", Member(rank, host=host, counts={op: count})) for rank, count in enumerate(counts)
    )
    return Comm(tuple(members))


def json_report(comms: Sequence[Comm], *, version: str = "2.29.2", told_at: str = "2026-05-04 03:12:09") -> bytes:
    """The report in JSON, without the comma that 2.28.7 and 2.28.9 forget."""
    report = {
        "nccl_version": version,
        "cuda_runtime_version": 12090,
        "cuda_driver_version": 12090,
        "timestamp": told_at,
        "communicators_count": len(comms),
        "communicators": [_json_comm(one) for one in comms],
        "ras": {"collection_time_sec": 0.001, "timeouts_count": 0},
    }
    text = json.dumps(report, indent=2) + "\n"
    if version in ("2.28.7", "2.28.9"):
        text = _COMMA_BEFORE_MISSING_STATUS.sub(r"\1", text)
    return text.encode()


def _json_comm(one: Comm) -> dict[str, object]:
    there = [member for member in one.members if member.is_there]
    missing = [member for member in one.members if not member.is_there]
    return {
        "hash": f"0x{one.hash:x}",
        "secondary_hash": "0xb7e7:0xb824",
        "size": len(one.members),
        "ranks_count": len(there),
        "missing_ranks_count": len(missing),
        "ranks": [{**_json_home(member), **_json_state(member)} for member in there],
        "missing_ranks": [{**_json_home(member), "status": _json_missing(member)} for member in missing],
    }


def _json_home(member: Member) -> dict[str, object]:
    device = member.rank % 8
    nvml = device if member.nvml is None else member.nvml
    return {"rank": member.rank, "host": member.host, "pid": member.process, "cuda_dev": device, "nvml_dev": nvml}


def _json_state(member: Member) -> dict[str, object]:
    status = {
        "init_state": 7 if member.status == "INIT" else 0,
        "async_error": member.error,
        "finalize_called": member.status == "FINALIZE",
        "destroy_flag": member.status in ("FINALIZE", "ABORT"),
        "abort_flag": member.status == "ABORT",
    }
    return {"status": status, "collective_counts": {op: member.counts.get(op, 0) for op in OPS}}


def _json_missing(member: Member) -> dict[str, bool]:
    return {"unresponsive": member.status in ("silent", "dead"), "considered_dead": member.status == "dead"}


def text_report(comms: Sequence[Comm], *, version: str = "2.30.7") -> bytes:
    """The report in text; before 2.26 all collectives are counted together and missing ranks have no process."""
    old = tuple(map(int, version.split(".")[:2])) < (2, 26)
    members = {(m.host, m.process): m for one in comms for m in one.members}
    lines = [
        f"NCCL version {version} compiled with CUDA 12.8",
        "CUDA runtime version 12080, driver version 12080",
        "",
        "Job summary",
        "===========",
        "",
        "  Nodes  Processes         GPUs  Processes     GPUs",
        "(total)   per node  per process    (total)  (total)",
        f"{len({host for host, _ in members}):7}  {8:9}  {1:11}  {len(members):9}  {len(members):7}",
        "",
        "Communicators... (0.00s)",
        "=============",
        "",
        *_table(comms, old=old),
        "",
        "Errors",
        "======",
        "",
        *_processes(members.values()),
        *(line for at, one in enumerate(comms) for line in _incomplete(at, one, old=old)),
        "Warnings",
        "========",
        "",
        *(line for at, one in enumerate(comms) for line in _mismatch(at, one, old=old)),
    ]
    return "".join(line + "\n" for line in lines).encode()


def _table(comms: Sequence[Comm], *, old: bool) -> list[str]:
    if not any(member.is_there for one in comms for member in one.members):
        return ["No communicator data collected!"]
    head = [
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors",
        "    #  in group  per comm  per node  per comm  in group",
    ]
    rows = []
    for at, one in enumerate(comms):
        there = [member for member in one.members if member.is_there]
        errors = [
            name
            for name, lines in (
                ("INCOMPLETE", _incomplete(at, one, old=old)),
                ("MISMATCH", _mismatch(at, one, old=old)),
            )
            if lines
        ]
        status = max((m.status for m in there), key=["NOCOMM", "INIT", "RUNNING", "FINALIZE", "ABORT"].index)
        rows.append(
            f"{at:5}  {1:8}  {len({m.host for m in there}):8}  {'3-4':>8}  {len(one.members):8}  {len(there):8}"
            f"  {status:>8}  {','.join(errors) or 'OK':>6}"
        )
    return head + rows


def _processes(members: Iterable[Member]) -> list[str]:
    members = list(members)
    lines = []
    for word, heading in (("silent", "INCOMPLETE"), ("dead", "DEAD")):
        lost = [member for member in members if member.status == word]
        if lost:
            many = "" if len(lost) == 1 else "es"
            told = f"  Missing communicator data from {len(lost)} job process{many}"
            if word == "dead":
                told = f"  {len(lost)} job process{'es are' if many else ' is'} considered dead"
                told += " (unreachable via the RAS network)"
            homes = (f"  Process {m.process} on node {m.host} managing GPU {m.gpu}" for m in lost)
            lines += [heading, told, *homes, ""]
    return lines


def _incomplete(at: int, one: Comm, *, old: bool) -> list[str]:
    lost = [member for member in one.members if member.status in ("silent", "dead")]
    if not lost:
        return []
    many = "" if len(lost) == 1 else "s"
    head = [f"#{at}-0 ({one.hash:016x}) INCOMPLETE", f"  Missing communicator data from {len(lost)} rank{many}"]
    if old:
        return [*head, f"  The missing rank{many}: {','.join(str(m.rank) for m in lost)}", ""]
    return [*head, *(f"  Rank {m.rank} -- {m.home}" for m in lost), ""]


def _mismatch(at: int, one: Comm, *, old: bool) -> list[str]:
    there = [member for member in one.members if member.is_there]
    absent = [member for member in one.members if member.status == "NOCOMM"]
    lines: list[str] = []
    if len({m.status for m in (*there, *absent)}) > 1:
        lines += ["  Communicator ranks have different status", *_sets(there, absent, one, old=old)]
    for op in ("collective",) if old else OPS:
        counts = {m.rank: sum(m.counts.values()) if old else m.counts.get(op, 0) for m in there}
        if len(set(counts.values())) > 1:
            lines.append(f"  Communicator ranks have different {op} operation counts")
            lines += [*_levels(counts, one), ""]
    return [f"#{at}-0 ({one.hash:016x}) MISMATCH", *lines] if lines else []


def _sets(there: list[Member], absent: list[Member], one: Comm, *, old: bool) -> list[str]:
    lines = []
    for status, number in Counter(m.status for m in (*there, *absent)).most_common():
        word = "UNKNOWN" if old and status == "NOCOMM" else status
        members = [m for m in (*there, *absent) if m.status == status]
        if old and status == "NOCOMM":
            named = ",".join(str(m.rank) for m in members)
            single = f"  Rank {named} has status UNKNOWN"
            lines += (
                [f"  {number} ranks have status UNKNOWN", f"  The unknown ranks: {named}"] if number > 1 else [single]
            )
        elif number == 1:
            lines.append(f"  Rank {members[0].rank} has status {word} -- {members[0].home}")
        else:
            lines += _many(f"{number} ranks have status {word}", members, one)
    return lines


def _many(what: str, members: list[Member], one: Comm) -> list[str]:
    """A line about several, who are listed where they are fewer than half."""
    listed = members if len(members) < len(one.members) / 2 else []
    return [f"  {what}", *(f"  Rank {m.rank} -- {m.home}" for m in listed)]


def _levels(counts: dict[int, int], one: Comm) -> list[str]:
    lines = []
    for count, number in sorted(Counter(counts.values()).items(), key=lambda item: (-item[1], -item[0])):
        members = [m for m in one.members if counts.get(m.rank) == count]
        launched = f"launched up to operation {count}" if count else "not launched any operations"
        if number == 1:
            lines.append(f"  Rank {members[0].rank} has {launched} -- {members[0].home}")
        else:
            lines += _many(f"{number} ranks have {launched}", members, one)
    return lines
