"""Kernel logs among the files of `--from`: told by content, given to their node, dated, and never a rank's."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.files.read_directory import read_directory
from collector.files.sniff import FileKind, kind_of
from collector.files.tree.walk import Bounds
from shared.answer.diagnosis import KernelEvidence
from shared.answer.words import Cause
from shared.missing import Missing, Reason
from shared.wire.kernel_events import KernelEvent, KernelEventKind, KernelEvents
from shared.wire.snapshot import Exited, NodeSnapshot
from tests.build.jobs.four_ranks import looks_without
from tests.build.jobs.judged import judged_files
from tests.build.jobs.placed import telling
from tests.build.jobs.simulated import Seen

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
KILLED = "Memory cgroup out of memory: Killed process 1003 (python3) total-vm:9kB, anon-rss:8kB"
HOSTS = {"node01": "0-1", "node02.example.org": "2-3"}
TAKEN = 1_750_000_000
"""Unix seconds of the looks."""


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stamps without a zone are of this machine's."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def looks_without_kernel_log() -> list[NodeSnapshot]:
    """A job on two nodes whose last rank stays away, looked at by agents that may not read the kernel's log."""
    refused = Missing(source="kernel_events", reason=Reason.NOT_PERMITTED)
    made = looks_without({3: Seen()}, hosts=HOSTS)
    return [_in_time(look.model_copy(update={"kernel_events": refused}), at) for at, look in enumerate(made)]


def _in_time(look: NodeSnapshot, at: int) -> NodeSnapshot:
    begun = [
        rank.model_copy(update={"identity": rank.identity.model_copy(update={"started_at": TAKEN - 600.0})})
        for rank in look.ranks
    ]
    return look.model_copy(update={"taken_at_ns": (TAKEN + at) * 10**9, "ranks": tuple(begun)})


def save(path: Path, snapshots: list[NodeSnapshot]) -> None:
    for at, snapshot in enumerate(snapshots):
        (path / f"snapshot{at}.json").write_text(snapshot.model_dump_json())


def read(path: Path) -> tuple[dict[str | None, tuple[KernelEvent, ...]], list[Missing]]:
    """What the kernels of the nodes told, and what could not be used."""
    snapshots, missing = read_directory(path)
    told = {s.host: s.kernel_events.events for s in snapshots if isinstance(s.kernel_events, KernelEvents)}
    return told, [each for each in missing if "kernel" in each.detail or "boot" in each.detail]


def stamped(form: str, seconds_ago: float) -> str:
    return time.strftime(form, time.gmtime(TAKEN - seconds_ago))


FORMS = {
    "syslog": lambda ago: stamped("%b %e %H:%M:%S node02 kernel: [12345.678901] ", ago),
    "journalctl": lambda ago: stamped("%b %d %H:%M:%S node02 kernel: ", ago),
    "short-iso": lambda ago: stamped("%Y-%m-%dT%H:%M:%S+0000 node02 kernel: ", ago),
    "rsyslog": lambda ago: stamped("%Y-%m-%dT%H:%M:%S.123456+00:00 node02.example.org kernel: ", ago),
    "short-unix": lambda ago: f"{TAKEN - ago:.6f} node02 kernel: ",
    "talosctl dmesg": lambda ago: stamped("node02: kern: warning: [%Y-%m-%dT%H:%M:%S.123456789Z]: ", ago),
    "dmesg -T": lambda ago: stamped("[%a %b %e %H:%M:%S %Y] ", ago),
    "dmesg iso": lambda ago: stamped("%Y-%m-%dT%H:%M:%S,123456+00:00 ", ago),
    "dmesg -x iso": lambda ago: "kern  :err   : " + stamped("%Y-%m-%dT%H:%M:%S,123456+00:00 ", ago),
}


@pytest.mark.parametrize("form", FORMS)
def test_lines_of_every_tool_are_dated_and_go_to_their_node(form: str, tmp_path: Path) -> None:
    """By the host in the line, or the path where it names none; a second line alike is counted."""
    prefix = FORMS[form]
    save(tmp_path, looks_without_kernel_log())
    (tmp_path / "node02").mkdir()
    text = f"{prefix(60)}eth0: link becomes ready\n{prefix(50)}{XID}\n{prefix(20)}{XID}\n"
    (tmp_path / "node02" / "messages").write_text(text)
    assert kind_of(text.encode()) is FileKind.KERNEL
    told, missing = read(tmp_path)
    assert set(told) == {"node02.example.org"}
    (event,) = told["node02.example.org"]
    assert (event.kind, event.code, event.count) == (KernelEventKind.XID, 79, 2)
    assert event.at == pytest.approx(TAKEN - 50, abs=1)
    assert event.last_at == pytest.approx(TAKEN - 20, abs=1)
    assert missing == []


BOOTED = TAKEN - 5000


@pytest.mark.parametrize(
    "anchor",
    [
        f"[  100.000000] audit: type=1400 audit({BOOTED + 100}.000:7): apparmor=x\n",
        f"[  100.000000] rtc_cmos 00:01: setting system clock to 2026-03-04T05:06:07 UTC ({BOOTED + 100})\n",
    ],
)
def test_seconds_since_boot_are_dated_by_what_tells_both(anchor: str, tmp_path: Path) -> None:
    """The kernel's audit, or the line that sets the clock; a hung task keeps its stack."""
    save(tmp_path, looks_without_kernel_log())
    hung = "INFO: task python3:1003 blocked for more than 120 seconds.\n[ 4990.000001]  nfs_wait+0x3a/0x60 [nfs]\n"
    text = f"[    0.000000] Linux version 6.1\n{anchor}[ 4980.000000] {XID}\n[ 4990.000000] {hung}"
    (tmp_path / "dmesg_node02.txt").write_text(text)
    told, missing = read(tmp_path)
    found = [(event.kind.value, event.at, event.stack) for event in told["node02.example.org"]]
    assert found == [("xid", TAKEN - 20.0, ()), ("hung_task", TAKEN - 10.0, ("nfs_wait+0x3a/0x60 [nfs]",))]
    assert missing == []
    (since,) = {s.kernel_events.since for s in read_directory(tmp_path)[0] if isinstance(s.kernel_events, KernelEvents)}
    assert since == BOOTED


def test_rank_that_was_killed_for_want_of_memory(tmp_path: Path) -> None:
    """Plain `dmesg` tells no time, and the victim's process all the same; a broken GPU without a time is nobody's."""
    exited = [
        look.model_copy(
            update={
                "ranks": tuple(rank for rank in look.ranks if rank.identity.rank != 3),
                "exited": tuple(Exited(pid=1003, identity=r.identity, signal=9) for r in look.ranks[1:2]),
            }
        )
        if look.host != "node01"
        else look
        for look in looks_without_kernel_log()
    ]
    save(tmp_path, exited)
    (tmp_path / "dmesg.node02").write_text(
        f"[   1.000000] Linux version 6.1\n[  42.000000] {KILLED}\n[ 43.000000] {XID}\n"
    )
    answer = judged_files(tmp_path)
    assert [(f.culprit_ranks, f.cause) for f in answer.findings] == [((3,), Cause.OOM)]
    told = [e.line for f in answer.findings for e in f.evidence if isinstance(e, KernelEvidence)]
    assert told == [KILLED]
    assert "seconds since boot" in str(answer.coverage.missing)


def test_what_happened_before_the_job_is_left_out(tmp_path: Path) -> None:
    """A syslog reaches back for weeks; its stamps name no year."""
    save(tmp_path, looks_without_kernel_log())
    old, new = FORMS["journalctl"](86_400 * 20), FORMS["journalctl"](30)
    (tmp_path / "kern.log").write_text(f"{old}{XID}\n{new}nfs: server nas1 not responding, still trying\n")
    lines = [e.line for f in judged_files(tmp_path).findings for e in f.evidence if isinstance(e, KernelEvidence)]
    assert lines == ["nfs: server nas1 not responding, still trying"]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("dmesg.txt", f"[ 1.000000] {XID}\n", "its node is unknown"),
        ("node02_and_node01.txt", f"[ 1.000000] {XID}\n", "its node is unknown"),
        ("kern.log", f"Jun 15 15:00:00 login1 kernel: {XID}\n", "a kernel log of login1"),
    ],
)
def test_log_of_no_known_node_is_told(name: str, text: str, told: str, tmp_path: Path) -> None:
    """It accuses nobody."""
    save(tmp_path, looks_without_kernel_log())
    (tmp_path / name).write_text(text)
    found, missing = read(tmp_path)
    assert found == {}
    assert [told in each.detail for each in missing] == [True]


def test_log_without_any_snapshot_is_told(tmp_path: Path) -> None:
    """Which rank ran where is not known then."""
    (tmp_path / "dmesg.txt").write_text(f"[ 1.000000] {XID}\n")
    assert [each.detail for each in read(tmp_path)[1]] == [
        "a kernel log, and there is no snapshot of a node it could belong to"
    ]


def test_what_an_agent_read_itself_goes_before_a_file(tmp_path: Path) -> None:
    """The snapshot's own events stay as they are."""
    own = KernelEvent(kind=KernelEventKind.LINK_DOWN, at=TAKEN - 5.0, interface="eth0")
    save(tmp_path, telling(looks_without_kernel_log(), "node02.example.org", own))
    (tmp_path / "dmesg_node02.txt").write_text(f"{FORMS['dmesg -T'](30)}{XID}\n")
    told, missing = read(tmp_path)
    assert told["node02.example.org"] == (own,)
    assert ["already contain its kernel log" in each.detail for each in missing] == [True]


NO_KERNEL = (
    "2026-11-21 19:27:03,123 INFO train: step 3\n2026-11-21 19:27:04,123 INFO train: step 4\n",
    "[Sat Nov 21 19:27:03 2026] step 3\n[Sat Nov 21 19:27:04 2026] step 4\n",
    "Nov 21 19:27:03 node02 python[4242]: [rank0]: step 3\n",
    f"step 3\n{FORMS['journalctl'](30)}{XID}\n" + "step 4\n" * 9,
)


@pytest.mark.parametrize("text", NO_KERNEL)
def test_logs_of_jobs_stay_logs_of_jobs(text: str, tmp_path: Path) -> None:
    """However they are stamped; and a job that prints a kernel's line among its own accuses no node."""
    save(tmp_path, looks_without_kernel_log())
    (tmp_path / "rank_3.log").write_text(text)
    assert read(tmp_path) == ({}, [])
    read_logs = (r.logs for s in read_directory(tmp_path)[0] for r in s.ranks)
    (rank,) = {logs.files[0].lines for logs in read_logs if not isinstance(logs, Missing) and logs.files}
    assert rank == tuple(text.splitlines())


def test_other_programs_lines_of_a_syslog_are_read_as_a_log(tmp_path: Path) -> None:
    """Who looks for kernel lines there must not hide a rank's."""
    prefix = FORMS["journalctl"](30)
    ours = prefix.replace("kernel:", "slurmstepd[77]:") + "[rank1]: ValueError: no shard"
    (tmp_path / "messages").write_text(f"{prefix}{XID}\n{prefix}eth0: up\n{ours}\n")
    snapshots, _ = read_directory(tmp_path)
    assert any("ValueError" in str(snapshot.logs) for snapshot in snapshots)


@pytest.mark.parametrize("seed", range(20))
def test_hostile_kernel_log_costs_itself_only(seed: int, tmp_path: Path) -> None:
    """Whatever bytes follow a beginning that looks right."""
    rng = random.Random(seed)
    save(tmp_path, looks_without_kernel_log())
    start = rng.choice(list(FORMS.values()))(30).encode()
    rubbish = [start + rng.randbytes(rng.randrange(80)).replace(b"\0", b"") for _ in range(300)]
    rubbish += [f"[{'9' * 10}.999999] audit({'9' * 11}.9:{'9' * 30}) {KILLED}".encode(), b"99999,1,1,-;x" + b"9" * 9000]
    (tmp_path / "dmesg_node02.txt").write_bytes(b"\n".join(rubbish))
    assert judged_files(tmp_path).findings[0].culprit_ranks == (3,)


def test_of_a_large_kernel_log_the_end_is_read(tmp_path: Path) -> None:
    """Of what repeats there, the count is kept and no more."""
    line = f"{FORMS['dmesg -T'](30)}{XID}\n".encode()
    (tmp_path / "dmesg_node02.txt").write_bytes(line * 2000)
    save(tmp_path, looks_without_kernel_log())
    snapshots, _ = read_directory(tmp_path, bounds=Bounds(whole_log_bytes=len(line) * 5 + 1))
    (events,) = {s.kernel_events.events for s in snapshots if isinstance(s.kernel_events, KernelEvents)}
    assert [event.count for event in events] == [5]
