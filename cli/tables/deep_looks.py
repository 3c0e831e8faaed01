"""A closer look at one rank, for people: threads with their frames, or system calls."""

from cli.tables.table import table, text
from collector.show.text.printable import printable
from shared.plural import either
from shared.wire.debug_output import DeepLook, SyscallTrace
from shared.wire.stacks import Stacks, Thread

_MOST_FRAMES = 60
_MOST_LINES = 40


def deep_table(taken: DeepLook) -> str:
    """Return what was seen; "" where nothing was."""
    where = ", ".join(part for part in (taken.host, f"pid {taken.pid}" if taken.pid is not None else None) if part)
    named = f" ({printable(where)})" if where else ""
    head = f"rank {taken.rank}{named}, {taken.how.value}, {taken.took_seconds:.1f} s"
    if taken.stacks is not None:
        remark = [printable(taken.remark, most=500)] if taken.remark else []
        return text([head, *remark, *threads_lines(taken.stacks)])
    return text([head, *_calls(taken.syscalls)]) if taken.syscalls is not None else ""


def threads_lines(stacks: Stacks) -> list[str]:
    """Return each thread with its frames, outermost first; threads at the same place are told together."""
    alike: dict[tuple[int, ...], list[Thread]] = {}
    for thread in sorted(stacks.threads, key=lambda each: (each is not stacks.main, each.tid or 0)):
        alike.setdefault(thread.frames, []).append(thread)
    lines: list[str] = []
    for threads in alike.values():
        names = ", ".join(dict.fromkeys(printable(each.name, most=40) for each in threads if each.name))
        tids = ", ".join(str(each.tid) for each in threads[:8]) + (" …" if len(threads) > 8 else "")
        main = " (main)" if stacks.main in threads else ""
        lines += ["", f"{either(threads, 'thread', 'threads')} {tids}{main} {names}".rstrip()]
        frames = stacks.stack(threads[0])
        cut = len(frames) - _MOST_FRAMES
        lines += [f"    … {cut} frames"] if cut > 0 else []
        shown = frames[-_MOST_FRAMES:]
        marks = ["    "] * (len(shown) - 1) + ["  → "]
        lines += [mark + printable(str(frame)) for mark, frame in zip(marks, shown, strict=True)] or ["    no frames"]
    return lines


def _calls(seen: SyscallTrace) -> list[str]:
    lines = [f"followed for {seen.seconds:.1f} s; data is left out"]
    if seen.waiting:
        lines += ["", "in one call all the time:"]
        lines += table(("THREAD", "CALL"), [(str(each.tid), each.call) for each in seen.waiting], indent=2)
    lines += ["", "calls:", *table(("COUNT", "CALL"), [(str(n), name) for name, n in seen.counts.items()], indent=2)]
    shown = [f"  {printable(line)}" for line in seen.lines[:_MOST_LINES]]
    more = len(seen.lines) - len(shown)
    return [*lines, "", "the first of them:", *shown, *([f"  … {more} more: --json"] if more > 0 else [])]
