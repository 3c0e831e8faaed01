"""The source `ras`: what NCCL's RAS threads tell of a whole job, asked of the ranks of this node.

RAS answers for a job and not for a rank, so this is asked once for a node, after its ranks have been looked at:

1. Find the endpoints: the RAS sockets that ranks themselves listen on (`endpoints.py`).
2. Ask nobody whom asking may harm (`known_crashes.py`).
3. Ask until every rank's process is among those that some answer reports. Processes of one user share an endpoint, so
   another job may answer, or a stopped process, which never does.

What was told stands for some seconds: a round of questions costs the whole job a round of messages.
"""

import ipaddress
import re
import threading
import time
from collections.abc import Sequence, Set
from functools import partial
from typing import Literal, NamedTuple

from agent.deadline import Deadline, ThreadPool
from agent.errors import Gone, Unavailable, missing_for
from agent.find.choose_ranks import Rank
from agent.proc.library_versions import NcclVersions
from agent.proc.procfs import ProcFs
from agent.sources.look_context import LookContext
from agent.sources.ras.client import ask_ras
from agent.sources.ras.endpoints import RasAddress, RasRank, endpoints_of, has_strangers
from agent.sources.ras.known_crashes import FIRST, refusal, signs_of
from agent.tools.memory_budget import Memory
from agent.tools.netns import connect
from shared.errors import NotPermitted
from shared.missing import Missing, Reason
from shared.wire.ras import UNANSWERED, RasLook, RasNetwork
from shared.wire.snapshot import Exited, RankSnapshot

Policy = Literal["safe", "always", "never"]

_SECONDS = 8.0
_SECONDS_TO_TELL = 0.1
_GREETING_SECONDS = 1.0
_MOST_KNOCKS = 12
_STANDS_SECONDS = 2.0
_MOST_KEPT = 16
_LOOPBACK = frozenset({"127.0.0.1", "::1"})


class RasTargets(NamedTuple):
    """What one look at a node brings along. `everyone` may share the endpoints of `ranks`."""

    ranks: Sequence[Rank]
    everyone: Sequence[Rank]
    looks: Sequence[RankSnapshot]
    exited: Sequence[Exited]
    ask: bool
    """Without it only by what RAS would know the ranks is told."""


class _Door(NamedTuple):
    """One endpoint, the ranks behind it that are asked about, and all that may answer there."""

    endpoint: RasAddress
    behind: Sequence[RasRank]
    crowd: Sequence[RasRank]

    @property
    def is_of_one_job(self) -> bool:
        """Has only one job ranks there?"""
        return len({(one.rank.identity.job, one.rank.identity.user) for one in self.crowd}) == 1


Told = tuple[RasLook | None, tuple[Missing, ...]]
"""What RAS tells, and what it does not; None where no rank has RAS."""


class RasSource:
    """Fills `ras` of a node's snapshot."""

    name = "ras"

    def __init__(self, policy: Policy, pool: ThreadPool, memory: Memory | None = None) -> None:
        self._memory = memory or Memory()
        self._policy = policy
        self._pool = pool
        self._versions = NcclVersions()
        self._asking = threading.Lock()
        self._kept: dict[object, tuple[float, tuple[RasNetwork, ...]]] = {}

    def look(self, visit: RasTargets, context: LookContext, deadline: Deadline) -> Told:
        """Ask for the ranks of a visit. Never raises: what fails is told."""
        if self._policy == "never" and visit.ask:
            return None, (Missing(source=self.name, reason=Reason.NOT_ENABLED, detail="RAS is switched off here"),)
        inner = deadline.sooner(_SECONDS_TO_TELL).at_most(_SECONDS)
        outcome = self._pool.run({self.name: partial(self._look, visit, context, inner)}, deadline, owner=self.name)[
            self.name
        ]
        return (None, (missing_for(self.name, outcome),)) if isinstance(outcome, Exception) else outcome

    def _look(self, visit: RasTargets, context: LookContext, deadline: Deadline) -> Told:
        endpoints, missing = endpoints_of(visit.ranks, context)
        if not endpoints or not visit.ask:
            return _known_by(endpoints, (), context) if endpoints else None, missing if visit.ask else ()
        crowds = endpoints_of(visit.everyone, context)[0]
        networks: list[RasNetwork] = []
        unasked: list[Missing] = list(missing)
        for endpoint, behind in endpoints.items():
            door = _Door(endpoint, behind, crowds.get(endpoint, behind))
            try:
                self._refuse_where_unsafe(door, visit, context)
                networks.extend(self._told_at(door, context, deadline))
            except (Unavailable, Gone, NotPermitted) as error:
                unasked.append(missing_for(self.name, error))
        return _known_by(endpoints, networks, context), tuple(dict.fromkeys(unasked))

    def _refuse_where_unsafe(self, door: _Door, visit: RasTargets, context: LookContext) -> None:
        """Step 2. Whoever listens there may be the one that answers, of this job or not."""
        if self._policy == "always":
            return
        if has_strangers(door.crowd, context, door.endpoint):
            raise _refused("processes that are not known ranks share the RAS address, with an unknown version of NCCL")
        signs = signs_of(visit.looks, visit.exited, (one.rank.identity for one in door.crowd))
        for version in {self._versions.of(context.procfs, one.rank.stat.pid) for one in door.crowd}:
            if version is not None and version < FIRST:
                raise Unavailable(Reason.NOT_FOUND, f"NCCL {version} has no RAS, which came with {FIRST}")
            why = refusal(version, signs)
            if why is not None:
                raise _refused(why)

    def _told_at(self, door: _Door, context: LookContext, deadline: Deadline) -> tuple[RasNetwork, ...]:
        """Step 3, or what it gave a moment ago. One caller at a time asks."""
        key = (door.endpoint, frozenset(one.rank.key for one in door.behind))
        if not self._asking.acquire(timeout=deadline.left()):
            raise Unavailable(Reason.TIMED_OUT, "other requests were asking RAS the whole time")
        try:
            at, networks = self._kept.get(key, (0.0, ()))
            if not networks or time.monotonic() - at > _STANDS_SECONDS:
                networks = self._ask_until_known(door, context, deadline)
                told_at = time.monotonic()
                fresh = {of: kept for of, kept in self._kept.items() if told_at - kept[0] <= _STANDS_SECONDS}
                self._kept = {**dict(list(fresh.items())[-_MOST_KEPT:]), key: (told_at, networks)}
            return networks
        finally:
            self._asking.release()

    def _ask_until_known(self, door: _Door, context: LookContext, deadline: Deadline) -> tuple[RasNetwork, ...]:
        """Ask until each rank's process is reported."""
        found: list[RasNetwork] = []
        wanted, address = {one.inner_pid for one in door.behind}, door.endpoint.address
        why = Unavailable(Reason.TIMED_OUT, f"there was no time left to ask RAS at {address}")
        for _ in range(_MOST_KNOCKS):
            if not wanted or deadline.left() <= 0:
                break
            try:
                network = self._ask_once(door, context, deadline)
            except Unavailable as error:
                if error.reason in (Reason.NOT_PERMITTED, Reason.REFUSED):
                    raise
                why = error
                continue
            why = Unavailable(Reason.NOT_FOUND, f"RAS at {address} answered for processes of another job")
            told = {peer.pid for peer in network.peers}
            if told & wanted or (door.is_of_one_job and not network.whole):
                found.append(network)
                wanted = wanted - told if network.whole else set()
        if not found:
            raise why
        return tuple(found)

    def _ask_once(self, door: _Door, context: LookContext, deadline: Deadline) -> RasNetwork:
        asked_at_ns, pid = time.time_ns(), door.behind[0].rank.stat.pid
        with connect(door.endpoint.address, context.procfs, pid, deadline) as channel:
            network = ask_ras(channel, deadline, greeting_seconds=_GREETING_SECONDS, memory=self._memory)
        return network.model_copy(update={"asked_at_ns": asked_at_ns})


def _refused(why: str) -> Unavailable:
    return Unavailable(Reason.REFUSED, f"{why}; `unhang agent --ras always` asks anyway")


def _known_by(
    endpoints: dict[RasAddress, list[RasRank]], networks: Sequence[RasNetwork], context: LookContext
) -> RasLook:
    behind = [one for each in endpoints.values() for one in each]
    addresses = {
        address for each in endpoints.values() for address in addresses_of(context.procfs, each[0].rank.stat.pid)
    }
    pids = {one.inner_pid: one.rank.stat.pid for one in behind if one.inner_pid != one.rank.stat.pid}
    return RasLook(
        addresses=tuple(sorted(addresses)),
        pids=pids,
        gone=() if pids else _gone(addresses | _LOOPBACK, networks, context.procfs),
        networks=tuple(networks),
    )


def _gone(here: Set[str], networks: Sequence[RasNetwork], procfs: ProcFs) -> tuple[tuple[str, int], ...]:
    """Return who is no process any more. Of containers that is not known: their pids are not those of the node."""
    peers = {peer for network in networks for peer in network.peers if peer.status in UNANSWERED and peer.host in here}
    alive = set(procfs.pids()) if peers else ()
    return tuple(sorted((peer.host, peer.pid) for peer in peers if peer.pid not in alive))


_MOST_BYTES = 4 * 1024 * 1024
_MOST_ADDRESSES = 256
#               |-- 10.3.0.14
#                  /32 host LOCAL
_LOCAL = re.compile(r"\|-- (\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})\n +/32 host LOCAL$", re.MULTILINE)
# fd000000000000000000000000000014 02 40 00 80     eth0
_INET6 = re.compile(r"^([0-9a-f]{32}) ", re.MULTILINE)


def addresses_of(procfs: ProcFs, pid: int) -> tuple[str, ...]:
    """Return the addresses of the network namespace of process `pid` that others can reach, sorted."""
    trie, inet6 = (procfs.known_text(pid, f"net/{name}", most=_MOST_BYTES) for name in ("fib_trie", "if_inet6"))
    found = {address for address in _LOCAL.findall(trie) if not address.startswith("127.")}
    for digits in _INET6.findall(inet6):
        address = ipaddress.IPv6Address(int(digits, 16))
        if not address.is_loopback:
            found.add(str(address))
    return tuple(sorted(found)[:_MOST_ADDRESSES])
