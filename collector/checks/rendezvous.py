"""Do the ranks agree on who they are, and where they meet?"""

from collections.abc import Iterator, Mapping, Sequence

from collector.align.node_clocks import clocks_off
from collector.checks.facts import (
    JobFacts,
    RankFacts,
    Rule,
    differing,
    in_sides,
    minority,
    shown,
    sorted_sides,
    who_in_words,
)
from collector.checks.sayings import said
from shared.answer.checks import Check, Severity
from shared.plural import ranks_with
from shared.rank_sets import fold, ranks_in_words, unfold

_ANEW_SECONDS = 60.0
"""Nodes' clocks differ by less, where they are not known to be off."""

_TOGETHER_SECONDS = 600.0
"""Two halves of one job start within ten minutes of each other; what starts later was not started with it."""


def world_sizes(facts: JobFacts) -> Iterator[Check]:
    """Ranks that wait for different numbers of ranks never all meet."""
    sides = sorted_sides({str(size): who for size, who in facts.by_world_size.items() if size is not None})
    if sides and not facts.in_several_steps and not _parts(facts):
        yield said("world_sizes", minority(sides), seen=in_sides(sides, of="WORLD_SIZE"))


def ranks_beyond(facts: JobFacts) -> Iterator[Check]:
    """A rank that its own world size leaves no room for."""
    beyond = [each for size, who in facts.by_world_size.items() if size for each in who if each.rank >= size]
    if beyond:
        sizes = ", ".join(sorted({str(each.identity.world_size) for each in beyond})[:4])
        yield said("ranks_beyond", beyond, seen=f"{who_in_words(beyond)} with WORLD_SIZE {sizes}; ranks count from 0")


def duplicates(facts: JobFacts) -> Iterator[Check]:
    """Several processes that claim one rank, and meet at one place."""
    if not facts.has_duplicates or _parts(facts):
        return
    twice = {rank: who for rank, who in facts.by_rank.items() if len(who) > 1}
    who = [each for claimants in twice.values() for each in claimants]
    first = next(iter(twice.values()))
    pids = ", ".join(f"pid {each.identity.pid} on {each.host or 'an unnamed host'}" for each in first[:4])
    apart = facts.in_several_steps
    yield said(
        "duplicates",
        who,
        severity=Severity.RISKY if apart else Severity.WRONG,
        seen=f"{ranks_with(twice, 'is', 'are')} claimed by several processes: {pids}"
        + (", in different Slurm steps" if apart else ""),
    )


def two_rendezvous(facts: JobFacts) -> Iterator[Check]:
    """One job's ranks, several times over, each set with a meeting place of its own."""
    parts = _parts(facts)
    if not parts:
        return
    whole = all(_is_whole(who) for _, who in parts)
    who = [each for _, members in parts for each in members]
    alone = any("--standalone" in each.setup.launcher for each in who if each.setup is not None)
    what = f"{len(parts)} whole jobs under one name" if whole else "parts of one job that cannot find each other"
    yield said(
        "whole_jobs" if whole else "parts_of_a_job",
        who,
        seen=f"{in_sides(parts, verb='meet at')}{', started with --standalone' if alone else ''}: {what}",
    )


def split_job(facts: JobFacts) -> Iterator[Check]:
    """Another job here has just the ranks that this one lacks, and began with it."""
    size = next(iter(facts.by_world_size)) if len(facts.by_world_size) == 1 else None
    if size is None or not facts.neighbours:
        return
    mine = set(facts.by_rank)
    begun = min(each.identity.started_at or 0.0 for each in facts.processes)
    for other in facts.neighbours if begun else ():
        theirs = set(unfold(other.ranks))
        near = other.started_at is not None and abs(other.started_at - begun) <= _TOGETHER_SECONDS
        if (
            other.world_size == size
            and near
            and not mine & theirs
            and len(mine | theirs) == size
            and mine | theirs == set(range(size))
        ):
            yield said(
                "split_job",
                facts.processes,
                seen=f"{ranks_in_words(mine)} of {size} are here, and {ranks_in_words(theirs)} of {size} are in job "
                f"{shown(other.job)} on {', '.join(other.hosts[:4])}",
            )


def restarted_alone(facts: JobFacts) -> Iterator[Check]:
    """A rank that began when others had already worked together, which they cannot without all ranks."""
    idle = [] if facts.has_duplicates else [each for each in facts.processes if not _has_worked(each)]
    if not idle or len(idle) == len(facts.processes):
        return
    off = clocks_off(each.look for each in facts.processes)
    begun = {size: _first_operation(who, off) for size, who in facts.by_world_size.items()}
    late = []
    for each in idle:
        first, started = begun[each.identity.world_size], _started(each, off)
        if first is not None and started is not None and started > first + _ANEW_SECONDS:
            late.append(each)
    if late:
        yield said(
            "restarted_alone",
            late,
            seen=f"{who_in_words(late)} started after other ranks of the job had already communicated",
        )


def _started(each: RankFacts, off: Mapping[str, int]) -> float | None:
    started = each.identity.started_at
    return None if started is None else started - off.get(each.identity.host or "", 0) / 1e9


def _first_operation(world: Sequence[RankFacts], off: Mapping[str, int]) -> float | None:
    """Return when any rank of a world recorded its first operation, in Unix seconds; records may have been lost."""
    first = [(each, min(each.trace.created_ns, default=0)) for each in world if each.trace is not None]
    return min((at / 1e9 - off.get(each.identity.host or "", 0) / 1e9 for each, at in first if at), default=None)


def _has_worked(each: RankFacts) -> bool:
    """Has it recorded operations? Then its world was formed again with it."""
    return each.trace is not None and len(each.trace) > 0


def masters(facts: JobFacts) -> Iterator[Check]:
    """Ranks of one world that look for the store in different places."""
    if facts.in_several_steps or _parts(facts):
        return
    ports = facts.sides("MASTER_PORT")
    addresses = [] if ports else _other_addresses(facts)
    sides = ports or addresses
    lost = [each for each in minority(sides) if not each.has_met] if sides else []
    if lost:
        name = "MASTER_PORT" if ports else "MASTER_ADDR"
        yield said("master_ports" if ports else "master_addresses", lost, seen=in_sides(sides, of=name))


def _other_addresses(facts: JobFacts) -> list[tuple[str, list[RankFacts]]]:
    """The addresses of the store that are not known to be names of one host."""
    if len({_short(address) for address in facts.values("MASTER_ADDR")}) < 2:
        return []
    known: dict[str, frozenset[str]] = {}
    for alike in facts.by_setup:
        for name, addresses in alike.setup.hosts.items():
            known[_short(name) or ""] = _meant(name, known) | frozenset(addresses)
    away = [e for e in facts.processes if not (e.host in facts.master_hosts and is_local(e.variable("MASTER_ADDR")))]
    sides = differing(away, lambda each: _short(each.variable("MASTER_ADDR")))
    if not sides:
        return []
    usual = _meant(sides[0][0], known)
    strangers = [side for side in sides[1:] if not _meant(side[0], known) & usual]
    return sides[:1] + strangers if strangers else []


def _meant(name: str, known: dict[str, frozenset[str]]) -> frozenset[str]:
    """Return the addresses that a name is known to have, and the name itself."""
    return known.get(_short(name) or "", frozenset()) | {name}


def _short(address: str | None) -> str | None:
    """Return a host's name without its domain; an address of numbers as it is."""
    if address is None or ":" in address or address.replace(".", "").isdecimal():
        return address
    return address.partition(".")[0].lower()


def is_local(address: str | None) -> bool:
    """Does this name or address mean whatever machine it is used on?"""
    return address is not None and (address in ("localhost", "::1", "ip6-localhost") or address.startswith("127."))


def _parts(facts: JobFacts) -> list[tuple[str, list[RankFacts]]]:
    """The sets of processes by their meeting places, where such sets hold the same ranks; [] in an ordinary job."""
    if not facts.has_duplicates:
        return []
    parts = differing(facts.processes, _meeting_place)
    seen: set[int] = set()
    for _, who in parts:
        ranks = {each.rank for each in who}
        if seen & ranks:
            return parts
        seen |= ranks
    return []


def _meeting_place(each: RankFacts) -> str | None:
    address = each.variable("MASTER_ADDR")
    if address is None:
        return None
    where = f"{each.host}'s {address}" if is_local(address) else address
    return f"{where}:{each.port}"


def _is_whole(who: Sequence[RankFacts]) -> bool:
    ranks = {each.rank for each in who}
    return all(each.identity.world_size == len(ranks) for each in who) and fold(ranks) == fold(range(len(ranks)))


MEETING: tuple[Rule, ...] = (world_sizes, ranks_beyond, duplicates, two_rendezvous, split_job, restarted_alone, masters)
