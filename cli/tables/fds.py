"""What each rank holds open, in a few lines."""

import re
from collections.abc import Sequence

from cli.tables.table import table, text
from collector.show.text.printable import printable
from collector.show.views import FdsView, RankFds
from shared.wire.snapshot import Pipe, Socket

_FIRST = 12
# /tmp/unhang-1000/4242.sock; /run/user/1000/probe/4242-1.sock where UNHANG_PROBE_DIR says so
_PROBE = re.compile(r"/\d+(-[1-3])?\.sock$")


def fds_table(view: FdsView, *, every: bool) -> str:
    """Return a block per rank: counts, sockets, pipes, devices; the first ones unless `every`."""
    return "\n".join(_rank(each, None if every else _FIRST) for each in view.ranks) or "no rank reports any\n"


def _rank(each: RankFds, most: int | None) -> str:
    fds = each.fds
    where = ", ".join(part for part in (each.host, f"pid {each.pid}" if each.pid is not None else None) if part)
    limit = "" if fds.limit is None else f" of {fds.limit}"
    lines = [f"rank {each.rank} ({printable(where)}): {fds.total}{limit} open"]
    lines += _counts("kinds", fds.by_kind) + _counts("files on", fds.files_by_file_system)
    if fds.devices:
        lines.append(f"  devices: {printable(', '.join(fds.devices[:most]))}")
    lines += _part(("FD", "FILE"), [(str(fd), path) for fd, path in fds.files.items()], most)
    sockets = [
        (str(s.fd), s.kind, s.state or "-", s.local or "-", "(of unhang's probe)" if _is_ours(s) else s.remote or "-")
        for s in sorted(fds.sockets, key=_is_ours)
    ]
    lines += _part(("FD", "SOCKET", "STATE", "LOCAL", "REMOTE"), sockets, most)
    pipes = [(str(p.fd), p.path or "(no name)", p.direction, _other_end(p, each.pid)) for p in fds.pipes]
    lines += _part(("FD", "PIPE", "DIRECTION", "OTHER END"), pipes, most)
    lines += [f"  {fd} {printable(target)}" for fd, target in sorted((fds.full or {}).items())[:most]]
    return text(lines)


def _is_ours(socket: Socket) -> bool:
    """Is it the one that the probe opens in each rank?"""
    return socket.state == "LISTEN" and _PROBE.search(socket.local) is not None


def _counts(what: str, counts: dict[str, int]) -> list[str]:
    told = ", ".join(f"{number} {name}" for name, number in sorted(counts.items(), key=lambda item: -item[1]))
    return [f"  {what}: {printable(told)}"] if counts else []


def _part(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], most: int | None) -> list[str]:
    if not rows:
        return []
    shown = rows[:most]
    more = [f"    … {len(rows) - len(shown)} more: --all"] if len(rows) > len(shown) else []
    return [*table(heads, shown, indent=2), *more]


def _other_end(pipe: Pipe, own: int | None) -> str:
    if set(pipe.other_end) == {own}:
        return "itself"
    pids = ", ".join(str(pid) for pid in pipe.other_end[:8])
    return f"pid {pids}" if pids else "no visible process"
