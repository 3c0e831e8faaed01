"""Agents that a site's package knows: a function of the entry point group `unhang.finders` (docs/plugins.md).

It takes no argument and returns host names, or URLs. It is asked again and again, as all sources of agents are, in a
thread of its own.
"""

from itertools import islice

from collector.agents.agent_source import MOST_SIGHTINGS, Sighting, SourceReading, address_at, parse_one
from collector.concurrency.threads import OwnThread
from shared.plugins import Plugin


class SiteFinder:
    """One such function."""

    def __init__(self, plugin: Plugin, *, agent_url: str) -> None:
        self.name = f"plugin {plugin.name}"
        self._plugin = plugin
        self._agent_url = agent_url
        self._thread = OwnThread(self.name)

    async def read(self) -> SourceReading:
        """Call it. Raises Unreachable where it raises, or has not come back, and InvalidHostlist."""
        return SourceReading(await self._thread.run(self._sightings))

    def _sightings(self) -> tuple[Sighting, ...]:
        found = dict.fromkeys(str(each) for each in islice(self._plugin.call(), MOST_SIGHTINGS))
        addresses = (parse_one(one) if "://" in one else address_at(one, self._agent_url) for one in found)
        return tuple(Sighting(address, self.name) for address in addresses)
