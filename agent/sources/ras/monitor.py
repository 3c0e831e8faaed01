"""What NCCL's RAS tells unasked: processes that it has declared dead, on nodes without an agent, too.

From NCCL 2.29 on, RAS tells whoever has sent it `MONITOR` which processes of the job come and go. It declares one dead
whose RAS thread has not answered for a minute. That accuses nobody: it makes the collector look at a job that stands
still sooner than its usual pauses would.

1. One connection to each endpoint at which ranks of this node listen (`endpoints.py`), made again where it has ended.
2. None where asking might harm: all that share the endpoint must be known ranks that have run for a while, with a
   version of NCCL that has it (`known_crashes.py`).
3. What comes belongs to the job: lines are bounded, few of them are kept, and none is waited for.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.library_versions import NcclVersions
from agent.proc.procfs import ProcFs
from agent.sources.look_context import LookContext
from agent.sources.ras.client import RasEvents
from agent.sources.ras.endpoints import RasAddress, RasRank, endpoints_of, has_strangers
from agent.sources.ras.known_crashes import may_tell
from agent.tools.netns import connect
from shared.errors import NotPermitted

SEARCH_SECONDS = 30.0
"""Between two searches for endpoints: RAS begins with a rank's first communicator."""
_ANSWER_SECONDS = 1.0
_MOST_CONNECTIONS = 16
MOST_DEAD = 4
"""That are kept in mind, the last: there are other signs of a node, too."""

# [2025-12-19 13:07:07] PEER_DEAD: Process 1524345 on node 172.16.64.245 managing GPU 1
_DEAD = re.compile(rb"\[[0-9: -]{19}\] PEER_DEAD: (?:Process ([0-9]{1,10}) on node ([!-~]{1,64}) [ -~]*|[ -~]*)\r?")


class RasMonitor:
    """Listens to the RAS of this node's ranks. One caller at a time reads."""

    def __init__(self, procfs: ProcFs, host: str, *, clock: Callable[[], float] = time.time) -> None:
        self._procfs = procfs
        self._host = host
        self._clock = clock
        self._versions = NcclVersions()
        self._told: dict[RasAddress, RasEvents] = {}
        self._dead: dict[str, float] = {}
        self._next_search = 0.0

    @property
    def dead(self) -> Mapping[str, float]:
        """Processes that were declared dead, by what RAS calls them, and since when that is known."""
        return dict(self._dead)

    def read(self, ranks: Sequence[Rank], deadline: Deadline) -> None:
        """Take in what has come, and connect where nobody listens yet. `ranks`: all of this node."""
        for endpoint, events in list(self._told.items()):
            try:
                for line in events.arrived():
                    self._take(line)
            except (Unavailable, OSError):
                self._hang_up(endpoint)
        if time.monotonic() >= self._next_search:
            self._next_search = time.monotonic() + SEARCH_SECONDS
            self._connect(ranks, deadline)

    def close(self) -> None:
        """Listen no longer."""
        for endpoint in list(self._told):
            self._hang_up(endpoint)

    def _connect(self, ranks: Sequence[Rank], deadline: Deadline) -> None:
        context = LookContext(self._procfs, self._host)
        endpoints, _ = endpoints_of(ranks, context)
        for endpoint in self._told.keys() - endpoints.keys():
            self._hang_up(endpoint)
        for endpoint, behind in list(endpoints.items())[:_MOST_CONNECTIONS]:
            try:
                if endpoint not in self._told and self._is_safe(endpoint, behind, context):
                    self._told[endpoint] = self._begin(endpoint, behind[0].rank.stat.pid, deadline)
            except (Unavailable, Gone, NotPermitted, OSError):
                continue

    def _is_safe(self, endpoint: RasAddress, behind: Sequence[RasRank], context: LookContext) -> bool:
        """Step 2."""
        if has_strangers(behind, context, endpoint):
            return False
        now = self._clock()
        versions = ((self._versions.of(self._procfs, one.rank.stat.pid), one.rank.identity) for one in behind)
        return all(may_tell(version, identity, now) for version, identity in versions)

    def _begin(self, endpoint: RasAddress, pid: int, deadline: Deadline) -> RasEvents:
        limit = deadline.at_most(_ANSWER_SECONDS)
        channel = connect(endpoint.address, self._procfs, pid, limit)
        try:
            return RasEvents(channel, limit)
        except BaseException:
            channel.close()
            raise

    def _hang_up(self, endpoint: RasAddress) -> None:
        events = self._told.pop(endpoint, None)
        if events is not None:
            events.close()

    def _take(self, line: bytes) -> None:
        """Step 3."""
        match = _DEAD.fullmatch(line)
        if match is None:
            return
        who = "" if match[1] is None else f"{match[2].decode('ascii')} pid {int(match[1])}"
        self._dead.setdefault(who, self._clock())
        while len(self._dead) > MOST_DEAD:
            del self._dead[next(iter(self._dead))]
