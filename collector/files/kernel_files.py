"""Kernel logs in files: output of `dmesg`, `journalctl -k` or syslog, read as an agent reads its node's.

1. Which node: the lines say it (syslog, journal), else the file's path holds a node's name, else there is only one.
2. When: by the line's own timestamp, without a zone in this machine's. Seconds since boot become a time if a line of
   the file has both: the clock set at boot, or the kernel's audit. Else a line belongs to the job only if it names
   one of its processes.
3. A snapshot's own kernel log takes precedence over a file.

A job's own log may have similar timestamps, so lines without a kernel event are left to the readers of logs, except
lines that begin with microseconds since boot.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from shared.formats.kernel_lines import read_kernel_frame, read_kernel_line
from shared.formats.kernel_repeats import KernelRecord
from shared.formats.logs.timestamps import moment_of
from shared.isolation import costs_itself
from shared.missing import Missing, refused, unreadable
from shared.redaction.redact import redact
from shared.wire.kernel_events import KernelEvents
from shared.wire.snapshot import NodeSnapshot

_UNTIMED = (
    "its lines have only seconds since boot, so only those that name a process of the job count; `dmesg -T` and "
    "`journalctl -k` print the time"
)
_LOOKED_AT = 100
_ENOUGH = 0.9
_BEGINS_WITHIN = 3
"""Lines: the first, or one that begins with the same word, `NVRM:`, is an event."""
_MOST_NODES = 10_000
_LINES_OF_A_STACK = 64
_ANCHORED_WITHIN = 300
_MONTHS = {name: at for at, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1)}
_MONTH = "|".join(_MONTHS)

_EXACT_ISO = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d"
_ISO = r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_DAY = rf"(?:{_MONTH}) [ \d]\d \d\d:\d\d:\d\d"
_BOOT = r"\[ {0,10}(?P<boot>\d{1,9}\.\d{6})\]"
"""Seconds since the node started. More digits are Unix time, as UCX stamps its lines."""
# Nov 21 19:27:03 node01 kernel: [12345.678901] NVRM: Xid (PCI:0000:3b:00): 79, …                rsyslog, journalctl -k
# Nov 21 19:27:03 kernel: [12345.678901] NVRM: Xid …          whose host somebody took out
# 2026-11-21T19:27:03.123456+00:00 node01 kernel: …    2026-11-21T19:27:03+0000 node01 kernel: …    with ISO dates
# 1763753223.123456 node01 kernel: NVRM: Xid …            journalctl -o short-unix
_SYSLOG = re.compile(
    rf"(?:(?P<iso>{_ISO})|(?P<day>{_DAY})(?:\.\d{{1,9}})?|(?P<unix>\d{{9,11}}\.\d{{1,9}}))"
    r" (?:(?P<host>[\w.-]{1,253}) |(?=kernel: ))(?P<program>[^\s:\[]{1,64})(?:\[\d{1,10}\])?: (?P<text>.*)"
)
# [12345.678901] node01 kernel: NVRM: Xid …                                             journalctl -o short-monotonic
_MONOTONIC = re.compile(rf"{_BOOT} (?P<host>[\w.-]{{1,253}}) kernel: (?P<text>.*)")
# 10.1.2.3: kern: warning: [2026-11-21T19:27:03.123456789Z]: NVRM: Xid …                                  talosctl dmesg
_TALOS = re.compile(rf"(?P<host>[\w.-]{{1,253}}): kern: {{1,8}}[a-z]{{1,8}}: \[(?P<iso>{_ISO})\]: (?P<text>.*)")
_AFTER_BOOT = re.compile(rf"{_BOOT} ?(?P<text>.*)")
# [12345.678901] NVRM: Xid …    <4>[12345.678901] NVRM: …    kern  :warn  : [12345.678901] NVRM: …         dmesg, -r, -x
# [Sat Nov 21 19:27:03 2026] NVRM: …        2026-11-21T19:27:03,123456+00:00 NVRM: …       dmesg -T, --time-format iso
_DMESG = re.compile(
    r"(?:<\d{1,3}>)?(?:(?P<facility>[a-z]{2,8}\d?) {0,8}:[a-z]{1,6} {0,8}: ?)?"
    rf"(?:{_BOOT}|\[[A-Z][a-z]{{2}} (?P<day>{_DAY}) (?P<year>20\d\d)\]|(?P<iso>{_EXACT_ISO})) ?(?P<text>.*)"
)
# 4,1234,98765432,-;NVRM: Xid (PCI:0000:3b:00): 79, …                                  what was copied from /dev/kmsg
_KMSG = re.compile(r"(?P<facility>\d{1,5}),\d{1,20},(?P<micros>\d{1,20}),[^;]{0,200};(?P<text>.*)")
# [09:10~11:40] NVRM: Xid …        what people write in front of a line that they keep, or nothing at all
_KEPT = re.compile(r"(?:\[[^\]\n]{1,40}\] {0,8})?(?P<text>.*)")
# rtc_cmos 00:01: setting system clock to 2026-03-04T05:06:07 UTC (1772600767)
# audit: type=1400 audit(1700000000.123:45): apparmor="STATUS" …
_ANCHOR = re.compile(
    r"setting system clock to .{0,40}\((?P<clock>\d{9,11})\)|audit\((?P<audit>\d{9,11}\.\d{1,6}):\d{1,20}\)"
)


class KernelLine(NamedTuple):
    """One line of the kernel's: of which node, when, and what it says without its stamp."""

    host: str | None
    at: float | None
    after_boot: float | None
    text: str
    stamp: str = ""
    """Month, day and time, if it has no year."""


@dataclass
class KernelText:
    """A file while it is sorted out: of the kernel's lines those with an event or a date, and all others."""

    name: str
    lines: list[KernelLine] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    telling: list[str] = field(default_factory=list)
    """The lines that hold an event, without their stamps."""


def is_kernel_log(head: str) -> bool:
    """Do the first lines look like what the kernel's log is printed as, by whichever tool?"""
    lines = [line for line in head.split("\n")[:_LOOKED_AT] if line and not line.startswith("-- ")]
    syslog = [match for line in lines if (match := _SYSLOG.match(line)) is not None]
    if any(match["program"] == "kernel" for match in syslog):
        return len(syslog) >= _ENOUGH * len(lines)
    alone = [line for line in lines if _KMSG.match(line) or _DMESG.match(line) or _TALOS.match(line)]
    if not lines or syslog:
        return False
    begun = (line for line in lines[:_BEGINS_WITHIN] if line.split(" ")[0] == lines[0].split(" ")[0])
    return len(alone) >= _ENOUGH * len(lines) or any(read_kernel_line(_without_stamp(line)) for line in begun)


def read_kernel_text(name: str, data: bytes) -> KernelText:
    """Sort the lines of a file."""
    told = KernelText(name)
    last: dict[str | None, KernelLine] = {}
    stack = 0
    for line in data.decode("utf-8", "replace").splitlines():
        read = _line(line.lstrip(" "))  # somebody may have indented them all
        if read is None:
            told.others.append(line)
            continue
        tells = read_kernel_line(read.text) is not None
        stack = _LINES_OF_A_STACK if tells else stack - 1
        if tells:
            told.telling.append(redact(read.text))
        if tells or read.host not in last or stack > 0 or _ANCHOR.search(read.text[:_ANCHORED_WITHIN]):
            told.lines.append(read)
        last[read.host] = read
        if not tells and read.after_boot is None and not (read.host or read.stamp):
            told.others.append(line)
    if not told.telling:  # it may tell in words that no row knows
        told.others = data.decode("utf-8", "replace").splitlines()
    kept = {id(line) for line in told.lines}
    told.lines += [line for line in last.values() if id(line) not in kept]
    return told


def _line(line: str) -> KernelLine | None:
    if (match := _SYSLOG.match(line)) is not None:
        return _of_syslog(match)
    if (match := _TALOS.match(line)) is not None:
        return KernelLine(match["host"], _of_iso(match["iso"]), None, match["text"])
    if (match := _MONOTONIC.match(line)) is not None:
        return KernelLine(match["host"], None, float(match["boot"]), match["text"])
    if (match := _KMSG.match(line)) is not None:
        own = int(match["facility"]) >> 3 == 0
        return KernelLine(None, None, int(match["micros"]) / 1e6, match["text"]) if own else None
    match = _DMESG.match(line)
    if match is None:
        text = _without_stamp(line)
        return KernelLine(None, None, None, text) if read_kernel_line(text) or read_kernel_frame(text) else None
    if match["facility"] not in (None, "kern"):
        return None
    stamp = _stamp(match["day"])
    at = _of_iso(match["iso"]) if stamp == "" else moment_of(f"{match['year']}-{stamp}", written_at=0.0)
    boot = None if match["boot"] is None else float(match["boot"])
    return KernelLine(None, at, boot, match["text"])


def _without_stamp(line: str) -> str:
    match = _KEPT.match(line)
    return line if match is None else match["text"]


def _of_syslog(match: re.Match[str]) -> KernelLine | None:
    if match["program"] != "kernel":
        return None
    at = _of_iso(match["iso"]) if match["unix"] is None else float(match["unix"])
    inner = _AFTER_BOOT.match(match["text"])
    boot, text = (None, match["text"]) if inner is None else (float(inner["boot"]), inner["text"])
    return KernelLine(match["host"], at, boot, text, _stamp(match["day"]))


def _of_iso(text: str | None) -> float | None:
    """Return a stamp as Unix seconds; None where it is no time."""
    try:
        return None if text is None else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _stamp(day: str | None) -> str:
    """Return `Nov 21 19:27:03` in the form of the other timestamps."""
    if day is None:
        return ""
    month, number, time = day.split()
    return f"{_MONTHS[month]:02}-{int(number):02} {time}"


@costs_itself(lambda snapshots, *_, **__: (snapshots, []), part="kernel logs")
def with_kernel_logs(
    snapshots: tuple[NodeSnapshot, ...], texts: Sequence[KernelText], *, written_at: float
) -> tuple[tuple[NodeSnapshot, ...], list[Missing]]:
    """Give each node what the files have about it; return also what could not be given to any.

    `written_at`: Unix seconds that no line is younger than, for stamps without a year.
    """
    nodes = {snapshot.host for snapshot in snapshots if snapshot.host is not None}
    if not nodes:
        telling = [text for text in texts if text.telling]
        return (*snapshots, *_without_nodes(telling, written_at)), [_nameless(text.name, nodes) for text in telling]
    records: dict[str, KernelRecord] = defaultdict(KernelRecord)
    since: dict[str, float | None] = {}
    missing: list[Missing] = []
    for text in (text for text in texts if text.telling):
        homes, lost = _homes(text, nodes)
        missing += lost
        untimed = False
        lines = [_dated(line, written_at) for line in text.lines if line.host in homes]
        offsets = _offsets(lines)
        for line in lines:
            home, at = homes[line.host], _time(line, offsets)
            records[home].take_line(line.text, at)
            untimed = untimed or at is None
            since[home] = min((each for each in (at, since.get(home)) if each is not None), default=None)
        missing += [unreadable(text.name, _UNTIMED)] if untimed else []
    own = {s.host or "" for s in snapshots if isinstance(s.kernel_events, KernelEvents)}
    missing += [
        refused("kernel_events", f"the snapshots of {host} already contain its kernel log")
        for host in sorted(own & records.keys())
    ]
    told = {
        host: KernelEvents(since=since.get(host), events=record.events)
        for host, record in records.items()
        if host not in own
    }
    return tuple(_with_events(snapshot, told) for snapshot in snapshots), missing


def _without_nodes(texts: Iterable[KernelText], written_at: float) -> Iterable[NodeSnapshot]:
    """What kernel logs tell by themselves, where no snapshot knows a node."""
    records: dict[str | None, KernelRecord] = defaultdict(KernelRecord)
    for line in (line for text in texts for line in text.lines):
        records[line.host].take_line(line.text, _dated(line, written_at).at)
    for host, record in list(records.items())[:_MOST_NODES]:
        yield NodeSnapshot(host=host, live=False, kernel_events=KernelEvents(events=record.events))


def _with_events(snapshot: NodeSnapshot, told: Mapping[str, KernelEvents]) -> NodeSnapshot:
    events = told.get(snapshot.host or "")
    return snapshot if events is None else snapshot.model_copy(update={"kernel_events": events})


def _homes(text: KernelText, nodes: set[str]) -> tuple[dict[str | None, str], list[Missing]]:
    """1. Return the node of each host that lines name, and of those that name none."""
    named = sorted({line.host for line in text.lines if line.host is not None})[:_MOST_NODES]
    homes: dict[str | None, str] = {host: node for host in named if (node := _node(host, nodes)) is not None}
    strangers = [host for host in named if host not in homes]
    whose = f"a kernel log of {', '.join(strangers[:4])}, of which there is no snapshot"
    lost = [refused(text.name, whose)] if strangers and not homes else []
    home = _in_path(text.name, nodes)
    if home is not None:
        homes[None] = home
    elif any(line.host is None for line in text.lines):
        lost.append(_nameless(text.name, nodes))
    return homes, lost


def _node(host: str, nodes: set[str]) -> str | None:
    """The node of that name; where one has a domain and the other none, the names before it count."""
    if host in nodes:
        return host
    alike = [node for node in nodes if "." not in host or "." not in node if _short(node) == _short(host)]
    return alike[0] if len(alike) == 1 else None


def _short(host: str) -> str:
    return host.partition(".")[0]


def _in_path(name: str, nodes: set[str]) -> str | None:
    """The one node whose name the path holds as a word, else the only node there is."""
    found = {node for node in nodes for word in (node, _short(node)) if _holds_word(name, word)}
    if len(found) == 1:
        return found.pop()
    return next(iter(nodes)) if len(nodes) == 1 and not found else None


def _holds_word(name: str, word: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9-]){re.escape(word)}(?![A-Za-z0-9-])", name) is not None


def _dated(line: KernelLine, written_at: float) -> KernelLine:
    return line if line.stamp == "" else line._replace(at=moment_of(line.stamp, written_at=written_at))


def _offsets(lines: Iterable[KernelLine]) -> dict[str | None, float]:
    """2. Return what to add to seconds since boot, by host: the last line that has both decides."""
    offsets: dict[str | None, float] = {}
    for line in lines:
        if line.after_boot is None:
            continue
        told = _clock(line)
        if told is not None:
            offsets[line.host] = told - line.after_boot
    return offsets


def _clock(line: KernelLine) -> float | None:
    match = _ANCHOR.search(line.text[:_ANCHORED_WITHIN])
    return line.at if match is None else float(match["clock"] or match["audit"])


def _time(line: KernelLine, offsets: Mapping[str | None, float]) -> float | None:
    if line.at is not None or line.after_boot is None or line.host not in offsets:
        return line.at
    return round(line.after_boot + offsets[line.host], 1)


def _nameless(name: str, nodes: Collection[str]) -> Missing:
    why = "its node is unknown: its name should contain the node's, as in dmesg_node01.txt"
    detail = why if nodes else "there is no snapshot of a node it could belong to"
    return unreadable(name, f"a kernel log, and {detail}")
