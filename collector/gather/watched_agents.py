"""What agents have told unasked, as far as it says whom to ask about a job, and for how long to wait for whom."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collector.align.expected import FoundHung
from collector.align.marks.agent_marks import Reported
from collector.hostlists import AgentAddress

DOUBTFUL_SECONDS = 3.5
"""For an agent that should have registered and has not: as long as a connection may take, and a moment to answer."""

MOST_FEW = 64
"""Agents that are asked for a verdict by few looks, and all that have not told anything: more, and all are asked."""

_NEARLY_ALL = 0.9
"""Where fewer agents register, those that do not may just not be meant to."""


@dataclass(frozen=True)
class WatchedAgents:
    """The agents that have registered lately, and what they say of one job."""

    urls: Mapping[str, str] = field(default_factory=dict)
    """Of each such agent, by its node's name."""
    reported: Reported | None = None
    """How far the job's ranks are; None: that is not known of all, or does not help."""
    usual_pause: float | None = None
    """How long jobs of this name usually pause, in seconds, as was learnt; None: nothing was."""
    faulty_hosts: tuple[str, ...] = ()
    """Nodes at fault again and again for causes that hardware can have."""
    found_hung: FoundHung | None = None
    """What the job was found hung with before ranks of it exited."""

    def doubtful(self, agents: Sequence[AgentAddress]) -> frozenset[str]:
        """Return the URLs of agents that have fallen silent; none where it is not usual to register."""
        live = frozenset(self.urls.values())
        silent = frozenset(agent.url for agent in agents) - live
        return silent if len(silent) <= (1 - _NEARLY_ALL) * len(agents) else frozenset()

    def agents_of(self, ranks: Iterable[int], agents: Collection[AgentAddress]) -> list[AgentAddress] | None:
        """Return the agents that have these ranks; None where one of them is not known."""
        by_url = {agent.url: agent for agent in agents}
        hosts = {self.reported.hosts[rank] for rank in ranks} if self.reported is not None else set()
        found = [by_url.get(self.urls.get(host, "")) for host in sorted(hosts)]
        known = [agent for agent in found if agent is not None]
        return known if len(known) == len(found) else None


NOBODY_WATCHES = WatchedAgents()
