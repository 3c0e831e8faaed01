"""How to let go, or ask about, a process outside the job that its ranks wait for."""

from collections.abc import Iterator, Sequence

from collector.align.stacks.process_text import is_stopped
from collector.align.work.trails import Trail
from collector.judge.trails.in_words import named_end
from shared.answer.diagnosis import NextStep
from shared.shell_commands import WHY_NONE, copyable

_MOST = 2


def steps_to_ask(trails: Sequence[Trail]) -> Iterator[NextStep]:
    """Yield what to do about whoever is at the end of each trail, each once."""
    seen: set[str] = set()
    for trail in trails:
        who = named_end(trail)
        if who not in seen and len(seen) < _MOST:
            seen.add(who)
            yield _step(trail, f"{who}{trail.host and f' on {trail.host}'}")


def _step(trail: Trail, who: str) -> NextStep:
    end, holder = trail.end, trail.holder
    last = trail.hops[-1].at
    if last.kind == "semaphore":
        text = f"see which processes{trail.host and f' on {trail.host}'} share it: one owes it, or has ended without"
        return NextStep(text=text, command=f"grep -ls ' {last.local} ' /proc/[0-9]*/maps" if last.local else None)
    if holder is None:
        port = last.name.rpartition(":")[2]
        command = copyable("ss", "-tnp", f"sport = :{port}") if port.isdecimal() else None
        return NextStep(text=f"find out on the machine of {last.name} who serves it there", command=command)
    if end is not None and is_stopped(end.process):
        return NextStep(text=f"resume {who}: a signal has stopped it", command=f"kill -CONT {holder.pid}", frees=True)
    job = None if end is None or end.identity is None else end.identity.job
    if job:
        command = copyable("unhang", "diagnose", operands=(job,))
        text = f"ask why {who} does not answer: its own job holds this one up"
        return NextStep(text=text if command is not None else f"{text} ({WHY_NONE})", command=command)
    return NextStep(text=f"see what {who} does that does not answer", command=f"py-spy dump --pid {holder.pid}")
