"""What the checks look at: every process of the job's newest attempt, with its settings and surroundings."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from collector.diagnose.expected import Expected, Neighbour
from collector.diagnose.roster import MOST_RANKS
from shared.checks import Check, CheckId, Severity
from shared.ranks import fold, ranks_in_words
from shared.setup import Setup
from shared.snapshot import Fds, Identity, NodeSnapshot, RankSnapshot
from shared.trace import Trace

H = TypeVar("H", bound=Hashable)

_MOST_SIDES = 6
_LONGEST_VALUE = 80
_MOST_HOSTS = 64
DEFAULT_PORT = "29500"


@dataclass(frozen=True)
class RankFacts:
    """One process that says it is a rank."""

    look: RankSnapshot
    host: str | None

    @property
    def identity(self) -> Identity:
        return self.look.identity

    @property
    def rank(self) -> int:
        return self.look.identity.rank

    @property
    def setup(self) -> Setup | None:
        return self.look.setup if isinstance(self.look.setup, Setup) else None

    @property
    def traced(self) -> bool:
        return isinstance(self.look.recorder, Trace)

    @property
    def age_seconds(self) -> float:
        """How long it had run when it was looked at; 0 where that is not known."""
        begun, seen = self.identity.started_at, self.look.looked_at_ns
        return 0.0 if begun is None or seen is None else seen / 1e9 - begun

    def variable(self, *names: str) -> str | None:
        """Return the first of these variables that is set."""
        variables = {} if self.setup is None else self.setup.variables
        return next((variables[name] for name in names if name in variables), None)

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


@dataclass(frozen=True)
class JobFacts:
    """All processes of one job, by rank, host and pid, and what is known beside them."""

    processes: tuple[RankFacts, ...]
    neighbours: tuple[Neighbour, ...]
    job: str | None
    all_answered: bool

    @cached_property
    def by_host(self) -> dict[str | None, list[RankFacts]]:
        """The processes of each host."""
        return grouped(self.processes, lambda each: each.host)

    @cached_property
    def by_rank(self) -> dict[int, list[RankFacts]]:
        """The processes that claim each rank."""
        return grouped(self.processes, lambda each: each.rank)

    @cached_property
    def in_several_steps(self) -> bool:
        """Do the processes belong to several steps of a Slurm job? Then they need not be one job of PyTorch's."""
        return bool(differing(self.processes, lambda each: each.variable("SLURM_STEP_ID", "SLURM_STEPID")))

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
    last: dict[tuple[object, ...], RankFacts] = {}
    for snapshot in sorted(snapshots, key=lambda each: each.taken_at_ns or 0):
        for look in snapshot.ranks:
            identity = look.identity
            if 0 <= identity.rank < MOST_RANKS and (expected.job is None or identity.job in (expected.job, None)):
                host = identity.host or snapshot.host
                last[identity.rank, host, identity.pid, identity.started_at] = RankFacts(look, host)
    attempt = max((each.identity.attempt for each in last.values()), default=0)
    current = [each for each in last.values() if each.identity.attempt == attempt]
    current.sort(key=lambda each: (each.rank, each.host or "", each.identity.pid or 0))
    quiet = not expected.unanswered and not any(snapshot.missing for snapshot in snapshots)
    return JobFacts(tuple(current), expected.neighbours, expected.job, quiet)


def grouped(processes: Iterable[RankFacts], key: Callable[[RankFacts], H]) -> dict[H, list[RankFacts]]:
    """Return the processes by what `key` says of them, in the order of first sight."""
    groups: dict[H, list[RankFacts]] = defaultdict(list)
    for each in processes:
        groups[key(each)].append(each)
    return dict(groups)


def differing(
    processes: Iterable[RankFacts], value: Callable[[RankFacts], str | None]
) -> list[tuple[str, list[RankFacts]]]:
    """Return the different values with whom they are of, the most common first; [] where all agree. None: left out."""
    known = [each for each in processes if value(each) is not None]
    sides = [(str(said), who) for said, who in grouped(known, value).items()]
    sides.sort(key=lambda side: (-len(side[1]), side[0]))
    return sides if len(sides) > 1 else []


def in_sides(sides: Sequence[tuple[str, Sequence[RankFacts]]], *, verb: str = "have") -> str:
    """Say `ranks 0-3 on node1 have a, ranks 4-7 on node2 have b`."""
    told = [f"{who_in_words(who)} {verb} {shown(value)}" for value, who in sides[:_MOST_SIDES]]
    more = [f"and {len(sides) - _MOST_SIDES} more values"] if len(sides) > _MOST_SIDES else []
    return ", ".join([*told, *more])


def shown(value: str) -> str:
    """Return a job's own word as it stands in a sentence: cut, and told apart where it is empty."""
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
    """Return all but those of the most common value; everybody where two values are equally common."""
    tied = len(sides) > 1 and len(sides[0][1]) == len(sides[1][1])
    return [each for _, who in sides[0 if tied else 1 :] for each in who]


def told(what: CheckId, severity: Severity, who: Sequence[RankFacts], *, seen: str, why: str, change: str) -> Check:
    """Return a check about these processes."""
    return Check(
        id=what,
        severity=severity,
        ranks=fold(each.rank for each in who),
        hosts=hosts_of(who)[:_MOST_HOSTS],
        seen=seen,
        why=why,
        change=change,
    )
