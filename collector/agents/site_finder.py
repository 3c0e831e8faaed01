"""Agents that a site's package knows: a function of the entry point group `unhang.finders` (docs/plugins.md).

It takes no argument and returns host names, or URLs. It is asked again and again, as all sources of agents are, in a
thread of its own.
"""

from itertools import islice

from collector.agents.agent_source import MOST_SIGHTINGS, Sighting, SourceReading, address_at, parse_one
from collector.concurrency.threads import OwnThread
from shared.errors import InvalidHostlist, Unreachable, quoted
from shared.missing import Missing, Reason
from shared.plugins import Plugin

_MOST_BROKEN = 20


class SiteFinder:
    """One such function."""

    def __init__(self, plugin: Plugin, *, agent_url: str) -> None:
        self.name = f"plugin {plugin.name}"
        self._plugin = plugin
        self._agent_url = agent_url
        self._thread = OwnThread(self.name)

    async def read(self) -> SourceReading:
        """Call it. What is no agent is among `missing`. Raises Unreachable where it raises, or has not come back."""
        return await self._thread.run(self._ask)

    def _ask(self) -> SourceReading:
        try:
            found = dict.fromkeys(str(each) for each in islice(self._plugin.call(), MOST_SIGHTINGS))
        except Exception as error:
            why = f"{self._plugin.package} raised {type(error).__name__}: {quoted(str(error))}"
            raise Unreachable(why) from error
        sightings, broken = list[Sighting](), list[Missing]()
        for one in found:
            try:
                address = parse_one(one) if "://" in one else address_at(one, self._agent_url)
                sightings.append(Sighting(address, self.name))
            except InvalidHostlist as error:
                broken.append(Missing(source=self.name, reason=Reason.UNREADABLE, detail=str(error)))
        return SourceReading(tuple(sightings), tuple(broken[:_MOST_BROKEN]))
