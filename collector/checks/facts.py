"""What the checks look at: every process of the job's newest attempt, with its settings and surroundings."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

from collector.align.expected import Expected, Neighbour
from collector.align.processes import MOST_RANKS
from shared.answer.checks import Check
from shared.plural import either
from shared.rank_sets import ranks_in_words
from shared.wire.devices import Gpu, Gpus
from shared.wire.log_events import Logs
from shared.wire.ras import RasLook
from shared.wire.setup import Setup
from shared.wire.snapshot import Fds, Identity, NodeSnapshot, RankSnapshot
from shared.wire.trace import Trace

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

_MOST_SIDES = 6
_LONGEST_VALUE = 80
DEFAULT_PORT = "29500"


class RankFacts(NamedTuple):
    """One process that says it is a rank."""

    look: RankSnapshot
    host: str | None
    identity: Identity
    rank: int
    setup: Setup | None
    trace: Trace | None

    @property
    def nccl(self) -> str | None:
        """The version of NCCL that it has loaded, by its setup, else by its flight record or its own log."""
        if self.setup is not None and self.setup.versions.nccl is not None:
            return self.setup.versions.nccl if self.setup.nccl_loaded else None
        if self.trace is not None and any(each.backend == "nccl" for each in self.trace.signatures):
            return self.trace.library
        events = self.look.logs.events if isinstance(self.look.logs, Logs) else ()
        return next((version for event in events if (version := event.fields.get("nccl")) is not None), None)

    @property
    def age_seconds(self) -> float:
        """How long it had run when it was looked at; 0 where that is not known."""
        begun, seen = self.identity.started_at, self.look.looked_at_ns
        return 0.0 if begun is None or seen is None else seen / 1e9 - begun

    def variable(self, *names: str) -> str | None:
        """Return the first of these variables that is set."""
        return None if self.setup is None else variable_of(self.setup, *names)

    @property
    def port(self) -> str:
        return self.variable("MASTER_PORT") or DEFAULT_PORT

    @property
    def has_met(self) -> bool:
        """Does it talk to the store, so that whatever its settings say, it has found it?"""
        fds = self.look.fds
        if not isinstance(fds, Fds):
            return False
        return any(s.state == "ESTABLISHED" and s.remote.endswith(f":{self.port}") for s in fds.sockets)


class SharedSetup(NamedTuple):
    """Processes that share one setup, as those of a node do after a survey: what it says is read once."""

    setup: Setup
    who: list[RankFacts]


Side = tuple[str, list[RankFacts]]
"""A value, and the processes that have it."""


@dataclass(frozen=True)
class JobFacts:
    """All processes of one job, by rank, host and pid, and what is known beside them."""

    processes: tuple[RankFacts, ...]
    neighbours: tuple[Neighbour, ...]
    job: str | None
    all_answered: bool
    gpus: Mapping[str | None, tuple[Gpu, ...]] = field(default_factory=dict)
    """The GPUs of each host, where a driver was asked; they know who computes on them."""
    nccl_logged: tuple[str, ...] = ()
    """Versions of NCCL that logs tell of which do not say whose they are."""

    @cached_property
    def by_host(self) -> dict[str | None, list[RankFacts]]:
        """The processes of each host."""
        return grouped(self.processes, lambda each: each.host)

    @cached_property
    def by_rank(self) -> dict[int, list[RankFacts]]:
        """The processes that claim each rank."""
        return grouped(self.processes, lambda each: each.rank)

    @cached_property
    def by_world_size(self) -> dict[int | None, list[RankFacts]]:
        """The processes by the WORLD_SIZE that they were given."""
        return grouped(self.processes, lambda each: each.identity.world_size)

    @property
    def has_duplicates(self) -> bool:
        """Do several processes claim one rank?"""
        return len(self.by_rank) < len(self.processes)

    @cached_property
    def read(self) -> tuple[RankFacts, ...]:
        """The processes whose settings were read."""
        return tuple(each for each in self.processes if each.setup is not None)

    @cached_property
    def by_setup(self) -> tuple[SharedSetup, ...]:
        """The same by setup, in the order of first sight."""
        found: dict[int, SharedSetup] = {}
        for each in self.processes:
            if each.setup is not None:
                if id(each.setup) not in found:
                    found[id(each.setup)] = SharedSetup(each.setup, [])
                found[id(each.setup)].who.append(each)
        return tuple(found.values())

    @cached_property
    def with_nccl(self) -> bool:
        """Has any of them NCCL loaded?"""
        return any(alike.setup.nccl_loaded for alike in self.by_setup)

    def those(self, fits: Callable[[Setup], bool]) -> list[RankFacts]:
        """Return the processes whose setup is so, in the order of ranks."""
        found = {id(alike.setup) for alike in self.by_setup if fits(alike.setup)}
        return [each for each in self.read if id(each.setup) in found] if found else []

    def values(self, name: str) -> dict[str, list[SharedSetup]]:
        """Return who has which value of a variable; those without it are not in it."""
        having = (alike for alike in self.by_setup if name in alike.setup.variables)
        return grouped(having, lambda alike: alike.setup.variables[name])

    def sides(self, name: str, *, unset: bool = False) -> list[Side]:
        """Return the different values of a variable, the most common first; [] where all agree.

        With `unset` to have none counts as a value, "".
        """
        return self.sides_by(lambda setup: setup.variables.get(name, "" if unset else None))

    def sides_by(self, value: Callable[[Setup], str | None]) -> list[Side]:
        """Return the different values that setups have, the most common first; [] where all agree. None: left out."""
        values = grouped(self.by_setup, lambda alike: value(alike.setup))
        return sorted_sides({said: members(alike) for said, alike in values.items() if said is not None})

    @cached_property
    def in_several_steps(self) -> bool:
        """Do the processes belong to several steps of a Slurm job? Then they need not be one job of PyTorch's."""
        return bool(self.sides("SLURM_STEP_ID") or self.sides("SLURM_STEPID"))

    @property
    def several_hosts(self) -> bool:
        return len(self.by_host) > 1

    @cached_property
    def master_hosts(self) -> frozenset[str | None]:
        """Where rank 0 runs."""
        return frozenset(each.host for each in self.by_rank.get(0, ()))


Rule = Callable[[JobFacts], Iterator[Check]]
"""One thing to check. Silent where all is well, and where nothing is known."""


def facts_of(snapshots: Sequence[NodeSnapshot], expected: Expected) -> JobFacts:
    """Take the last look at each process of the job; of several attempts the newest one counts."""
    by_attempt: dict[int, dict[tuple[int, str, int, float], RankFacts]] = defaultdict(dict)
    for snapshot in sorted(snapshots, key=lambda each: each.taken_at_ns or 0):
        for look in snapshot.ranks:
            identity = look.identity
            if 0 <= identity.rank < MOST_RANKS and (expected.job is None or identity.job in (expected.job, None)):
                host = identity.host or snapshot.host
                process = (identity.rank, host or "", identity.pid or 0, identity.started_at or 0.0)
                by_attempt[identity.attempt][process] = _facts_of(look, host)
    newest = by_attempt[max(by_attempt, default=0)]
    quiet = not expected.unanswered and not any(snapshot.missing for snapshot in snapshots)
    gpus = {each.host: each.gpus.gpus for each in snapshots if isinstance(each.gpus, Gpus)}
    processes = tuple(newest[process] for process in sorted(newest))
    return JobFacts(processes, expected.neighbours, expected.job, quiet, gpus, _nccl_logged(snapshots))


def _nccl_logged(snapshots: Sequence[NodeSnapshot]) -> tuple[str, ...]:
    logs = [snapshot.logs for snapshot in snapshots if snapshot.logs is not None]
    told = {event.fields["nccl"] for each in logs for event in each.events if "nccl" in event.fields}
    looks = [snapshot.ras for snapshot in snapshots if isinstance(snapshot.ras, RasLook)]
    told |= {network.nccl_version for look in looks for network in look.networks}
    return tuple(sorted(filter(None, told)))


def _facts_of(look: RankSnapshot, host: str | None) -> RankFacts:
    setup = look.setup if isinstance(look.setup, Setup) else None
    trace = look.recorder if isinstance(look.recorder, Trace) and look.recorder.is_recorded else None
    return RankFacts(look, host, look.identity, look.identity.rank, setup, trace)


def variable_of(setup: Setup, *names: str) -> str | None:
    """Return the first of these variables that is set."""
    return next((setup.variables[name] for name in names if name in setup.variables), None)


def members(several: Iterable[SharedSetup]) -> list[RankFacts]:
    """Return the processes of several setups."""
    return [each for alike in several for each in alike.who]


def grouped(several: Iterable[T], key: Callable[[T], H]) -> dict[H, list[T]]:
    """Return what there is by what `key` says of it, in the order of first sight."""
    groups: dict[H, list[T]] = defaultdict(list)
    for each in several:
        groups[key(each)].append(each)
    return dict(groups)


def differing(processes: Iterable[RankFacts], value: Callable[[RankFacts], str | None]) -> list[Side]:
    """Return the different values with whom they are of, the most common first; [] where all agree. None: left out."""
    groups = grouped(processes, value)
    return sorted_sides({said: who for said, who in groups.items() if said is not None})


def sorted_sides(values: Mapping[str, list[RankFacts]]) -> list[Side]:
    """Return the values with whom they are of, the most common first; [] where there are not two."""
    return sorted(values.items(), key=lambda side: (-len(side[1]), side[0])) if len(values) > 1 else []


def in_sides(sides: Sequence[tuple[str, Sequence[RankFacts]]], *, verb: str = "have", of: str = "") -> str:
    """Say `ranks 0-3 on node1 have a, rank 4 on node2 has b`; `of` is put before each value."""
    word = f" {of}" if of else ""
    named = [f"{who_with(who, verb)}{word} {shown(value)}" for value, who in sides[:_MOST_SIDES]]
    more = [f"and {len(sides) - _MOST_SIDES} more values"] if len(sides) > _MOST_SIDES else []
    return ", ".join([*named, *more])


def who_with(who: Sequence[RankFacts], verb: str) -> str:
    """Say `rank 3 on node1 has`, `ranks 0-2 meet at`: `verb` is the form for several, its first word agrees."""
    first, _, rest = verb.partition(" ")
    agreeing = either({each.rank for each in who}, "has" if first == "have" else f"{first}s", first)
    return " ".join(part for part in (who_in_words(who), agreeing, rest) if part)


def shown(value: str) -> str:
    """Return a job's own word for a sentence: cut, and `nothing` if it is empty."""
    if not value:
        return "nothing"
    return value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 1] + "…"


def who_in_words(processes: Sequence[RankFacts]) -> str:
    """Say `ranks 0-3 on node1`, or on how many hosts."""
    hosts = hosts_of(processes)
    where = f" on {hosts[0]}" if len(hosts) == 1 else f" on {len(hosts)} hosts" if hosts else ""
    return ranks_in_words(each.rank for each in processes) + where


def hosts_of(processes: Iterable[RankFacts]) -> tuple[str, ...]:
    """Return the names of the processes' hosts."""
    return tuple(sorted({each.host for each in processes if each.host is not None}))


def minority(sides: Sequence[tuple[str, Sequence[RankFacts]]]) -> list[RankFacts]:
    """Return all but those of the most common value; all if two values are equally common."""
    tied = len(sides) > 1 and len(sides[0][1]) == len(sides[1][1])
    return [each for _, who in sides[0 if tied else 1 :] for each in who]
