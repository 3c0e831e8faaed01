"""A trail in words: `rank 2 waits at ask (a.py:7) to hear from pid 123 (python) at 10.0.0.7:80, which is asleep`."""

from collections.abc import Iterator
from itertools import pairwise

from collector.align.observations import Observations
from collector.align.stacks.activity import place
from collector.align.stacks.process_text import process_in_words
from collector.align.work.bystanders import Bystander
from collector.align.work.trails import Hop, Leads, Trail
from shared.answer.diagnosis import ChainLink
from shared.wire.fds import Holder, OtherEnd
from shared.wire.snapshot import Identity

_SENDS = frozenset("write writev sendto sendmsg sendmmsg".split())


def trail_in_words(trail: Trail, observations: Observations) -> str:
    """Say from which line a rank waits for whom, and on what these wait in turn."""
    return f"rank {trail.rank} {', which '.join(link.does for link in links_of(trail, observations))}"


def links_of(trail: Trail, observations: Observations) -> Iterator[ChainLink]:
    """Yield each who waits, and who is waited for at the end, where somebody is known to be."""
    seen = observations.activities.get(trail.rank)
    first, *parts = _parts(trail)
    verb, _, rest = first.partition(" ")
    at = "" if seen is None or seen.user is None else f" at {place(seen.user)}"
    identities = [*(hop.identity for hop in trail.hops), None if trail.end is None else trail.end.identity]
    whos = [f"rank {trail.rank}", *map(_of_hop, trail.hops[1:]), named_end(trail)]
    for who, does, identity in zip(whos, [f"{verb}{at} {rest}", *parts], identities, strict=False):
        yield ChainLink(who=who, does=does, job=None if identity is None else identity.job)


def way_in_words(trail: Trail) -> str:
    """Say from whom to whom it leads, without who waits first."""
    return ", which ".join(_parts(trail))


def named_end(trail: Trail) -> str:
    """Name whoever is at the end of a trail: a rank of another job by that, else a process, or an address."""
    if trail.holder is None:
        return trail.hops[-1].at.name
    return _named(trail.holder, None if trail.end is None else trail.end.identity)


def _parts(trail: Trail) -> Iterator[str]:
    for hop, following in pairwise(trail.hops):
        yield _waits(hop, _of_hop(following))
    last = trail.hops[-1]
    if trail.leads is Leads.CIRCLE:
        again = next(hop for hop in trail.hops if hop.pid in {holder.pid for holder in last.at.holders})
        own = f"rank {trail.rank}{' of this job' if any(hop.identity for hop in trail.hops) else ''}"
        yield f"{_waits(last, own if again is trail.hops[0] else _of_hop(again))}: a circle"
    elif trail.to_rank is not None:
        yield _waits(last, f"rank {trail.to_rank}")
    elif trail.holder is None:
        yield _alone(last)
    else:
        yield _waits(last, named_end(trail))
        yield "nobody examined" if trail.end is None else end_in_words(trail.end, last.at)


def _of_hop(hop: Hop) -> str:
    return _named(Holder(pid=hop.pid, name=hop.name), hop.identity)


def _named(holder: Holder, identity: Identity | None) -> str:
    if identity is not None and identity.job:
        return f"rank {identity.rank} of job {identity.job} (pid {holder.pid})"
    return f"pid {holder.pid}{holder.name and f' ({holder.name})'}"


def _waits(hop: Hop, whom: str) -> str:
    """What a process waits for somebody to do, at what."""
    sends = hop.call in _SENDS
    match hop.at.kind:
        case "socket":
            at = f" at {hop.at.name}" if hop.at.name else ""
            return f"waits for {whom}{at} to read what it sends" if sends else f"waits to hear from {whom}{at}"
        case "child":
            return f"waits for the end of {whom}"
        case "semaphore":
            return f"waits for {whom} at {hop.at.name}"
        case _:
            where = f"the FIFO {hop.at.name}" if hop.at.kind == "fifo" else "its pipe"
            return f"waits for {whom} to {'read' if sends else 'write into'} {where}"


def _alone(hop: Hop) -> str:
    """What a process waits at that no other process is known to hold."""
    match hop.at.kind:
        case "terminal":
            return f"waits for somebody to type at {hop.at.name}"
        case "socket" if not hop.at.own:
            return f"waits to hear from {hop.at.name or 'a socket'}, which no process on this machine holds"
        case "child":
            return "waits for the end of a child"
        case "semaphore":
            return f"waits for {hop.at.name}"
        case "fifo":
            return f"waits for somebody to open the other end of the FIFO {hop.at.name}"
        case _:
            what = "a connection" if hop.at.kind == "socket" else "a pipe"
            who = "only itself" if hop.at.own else "no process"
            return f"waits at {what} of which {who} holds the other end"


def end_in_words(end: Bystander, at: OtherEnd) -> str:
    """What whoever is waited for does, and what it has not read."""
    unread = f", and has not read {at.unread_bytes} bytes that lie there" if at.unread_bytes else ""
    if end.works:
        return f"{end.works[0].what}{unread}"
    if not end.activity.frames and not end.is_held:
        return f"is {process_in_words(end.process)}{unread}"
    frame = end.activity.user or next(iter(end.activity.frames[-1:]), None)
    where = "" if frame is None else f" at {place(frame)}"
    label = "no longer running" if end.process.state in "ZX" else end.activity.label
    return f"is {label}{where}{unread}"
