"""Puts a RAS report together, whichever format it comes in, within bounds."""

import re
from array import array
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from shared.errors import InvalidInput
from shared.rank_sets import fold
from shared.wire.ras import Communicator, Launched, Peer, RasNetwork, RasStatus, StatusRanks

MOST_COMMUNICATORS = 65_536
MOST_MEMBERS = 1_000_000
"""Ranks of all communicators together, each as often as it is named: some hundred bytes each."""
MOST_TALLIES = 200_000
"""Sets of ranks with one thing in common, of all communicators together: half a kilobyte each."""
MOST_RANK = 1 << 22
MOST_KINDS = 64
"""Operations, statuses or errors of one communicator."""

_KindT = TypeVar("_KindT")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Tally:
    """Ranks with one thing in common."""

    def __init__(self) -> None:
        self.number = 0
        self.ranks: set[int] = set()

    def add(self, rank: int) -> None:
        self.ranks.add(rank)
        self.number = max(self.number, len(self.ranks))


class CommunicatorBuilder:
    """One communicator while it is read."""

    def __init__(
        self, hash_: str, secondary: str = "", size: int | None = None, *, tally: Callable[[], Tally] = Tally
    ) -> None:
        """`tally` makes a set of ranks, or raises InvalidInput where there are too many."""
        self.key = (hash_, secondary)
        self.size = size
        self.processes: dict[int, int] = {}
        self._launched: dict[str, dict[int, Tally]] = defaultdict(lambda: defaultdict(tally))
        self._standings: dict[str, Tally] = defaultdict(tally)
        self._errors: dict[str, Tally] = defaultdict(tally)

    def launched(self, op: str, operations: int) -> Tally:
        """The ranks that have launched `op` so many times."""
        return _bounded(self._launched, canonical_op(op))[operations]

    def standing(self, status: RasStatus) -> Tally:
        """The ranks of this status."""
        return self._standings[status.value]

    def drop(self, status: RasStatus) -> None:
        """Forget who had this status: another one has been found for them."""
        self._standings.pop(status.value, None)

    def reporting(self, error: str) -> Tally:
        """The ranks that report this error."""
        return _bounded(self._errors, error)

    def build(self) -> Communicator:
        """The value. Launches run from fewest to most."""
        ranks = sorted(self.processes)
        return Communicator(
            hash=self.key[0],
            secondary_hash=self.key[1],
            size=self._size(),
            launched={
                op: tuple(Launched(count, tally.number, fold(tally.ranks)) for count, tally in sorted(counts.items()))
                for op, counts in sorted(self._launched.items())
            },
            standings=_standings(self._standings),
            errors=_standings(self._errors),
            ranks=array("q", ranks),
            peers=array("q", (self.processes[rank] for rank in ranks)),
        )

    def _size(self) -> int | None:
        """The reported size; else, if a report was cut, as many as were counted or missed."""
        counted = [sum(tally.number for tally in counts.values()) for counts in self._launched.values()]
        if self.size is not None or not counted:
            return self.size
        return max(counted) + sum(self._standings[status].number for status in _UNCOUNTED if status in self._standings)


_UNCOUNTED = (RasStatus.SILENT, RasStatus.DEAD, RasStatus.NOCOMM, RasStatus.UNKNOWN)


class NetworkBuilder:
    """A whole report while it is read. Raises InvalidInput where it grows beyond all measure."""

    def __init__(self) -> None:
        self._peers: dict[tuple[str, int], int] = {}
        self._known: list[Peer] = []
        self._communicators: dict[tuple[str, ...], CommunicatorBuilder] = {}
        self._members = 0
        self._tallies = 0

    def count(self) -> None:
        """Take note that a rank is named. Raises InvalidInput."""
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise InvalidInput(f"a RAS report that names more than {MOST_MEMBERS} ranks")

    def _tally(self) -> Tally:
        self._tallies += 1
        if self._tallies > MOST_TALLIES:
            raise InvalidInput(f"a RAS report that distinguishes more than {MOST_TALLIES} sets of ranks")
        return Tally()

    def peer(self, host: str, pid: int, gpu: str, status: RasStatus = RasStatus.RUNNING) -> int:
        """Record a process and return its index. Trouble, once reported, stays."""
        self.count()
        at = self._peers.setdefault((host, pid), len(self._known))
        if at == len(self._known):
            self._known.append(Peer(host, pid, gpu, status))
        elif _TROUBLE[status] > _TROUBLE[self._known[at].status]:
            self._known[at] = self._known[at]._replace(status=status)
        return at

    def communicator(
        self, *place: str, hash_: str, secondary: str = "", size: int | None = None
    ) -> CommunicatorBuilder:
        """The communicator at `place`, which distinguishes those of the same hash."""
        found = self._communicators.get(place)
        if found is None:
            if len(self._communicators) >= MOST_COMMUNICATORS:
                raise InvalidInput(f"a RAS report of more than {MOST_COMMUNICATORS} communicators")
            found = self._communicators[place] = CommunicatorBuilder(hash_, secondary, size, tally=self._tally)
        return found

    def build(
        self, *, version: str, told_at: str = "", known: int = 0, timeouts: int = 0, whole: bool = False
    ) -> RasNetwork:
        """The value."""
        communicators = tuple(each.build() for each in self._communicators.values())
        return RasNetwork(
            told_at=told_at,
            nccl_version=version,
            peers=tuple(self._known),
            communicators=communicators,
            known=max(known, len(communicators)),
            timeouts=timeouts,
            whole=whole,
        )


_TROUBLE = dict.fromkeys(RasStatus, 0) | {RasStatus.SILENT: 1, RasStatus.DEAD: 2}


def canonical_op(name: str) -> str:
    """NCCL's `AllReduce` in the words of PyTorch: `all_reduce`."""
    return _HUMP.sub("_", name[:40]).lower()


def _bounded(kinds: dict[str, _KindT], name: str) -> _KindT:
    if name not in kinds and len(kinds) >= MOST_KINDS:
        raise InvalidInput(f"a RAS report with more than {MOST_KINDS} kinds of one thing")
    return kinds[name]


def _standings(tallies: dict[str, Tally]) -> tuple[StatusRanks, ...]:
    return tuple(
        StatusRanks(word, tally.number, fold(tally.ranks)) for word, tally in sorted(tallies.items()) if tally.number
    )
