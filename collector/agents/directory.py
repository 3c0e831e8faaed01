"""All agents that the collector knows, by whatever way: what the rest of the collector asks."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from collector.agents.agent_source import AgentSource, PodPlace, Sighting
from collector.agents.merging import KnownAgent, Merged, merge
from collector.agents.polling import PolledSource
from collector.agents.registration.registered import SOURCE, Leases
from collector.agents.static_list import StaticInventory
from collector.concurrency.tasks import end
from collector.hostlists import AgentAddress
from shared.missing import Missing

_MOST_TROUBLES = 100
"""Most that are reported: one broken list may name thousands."""

_Given = tuple[tuple[tuple[str, tuple[AgentAddress, ...]], ...], tuple[Sighting, ...], tuple[tuple[Sighting, ...], ...]]
"""Host lists, leases, and the other sources."""


class Directory:
    """Agents from all sources, merged. It answers with what is known now, and never waits for a source.

    The order of the sources decides which URL is used: first what people configured, then what agents register, then
    the others in the order given.
    """

    def __init__(
        self,
        static: StaticInventory,
        sources: Sequence[AgentSource] = (),
        *,
        leases: Leases | None = None,
        period_seconds: float = 15.0,
        deadline_seconds: float = 5.0,
    ) -> None:
        self.leases = leases
        self.standings = tuple(PolledSource(source, deadline_seconds=deadline_seconds) for source in sources)
        self._static = static
        self._period_seconds = period_seconds
        self._last: tuple[_Given, Merged] | None = None

    @asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """Ask every source once, within its deadline, and then again and again until the end of the context."""
        await asyncio.gather(*(standing.refresh() for standing in self.standings))
        tasks = [self._begin(standing) for standing in self.standings]
        try:
            yield
        finally:
            await end(*tasks)

    def addresses(self) -> tuple[AgentAddress, ...]:
        """Return the agents to ask."""
        return tuple(agent.address for agent in self.agents() if agent.asked)

    def agents(self) -> tuple[KnownAgent, ...]:
        """Return all agents, also those that are only remembered, and which sources know each."""
        return self._merged()[0]

    @property
    def trouble(self) -> Missing | None:
        """The first of `troubles`."""
        return next(iter(self.troubles), None)

    @property
    def troubles(self) -> tuple[Missing, ...]:
        """Why the list may be out of date or wrong: sources that fail, what they miss, what they disagree on."""
        conflicts = self._merged()[1]
        return (*self._failing(), *conflicts)[:_MOST_TROUBLES]

    @property
    def pods(self) -> Mapping[str, PodPlace]:
        """Pods that may run ranks, by uid."""
        return {pod.uid: pod for standing in self.standings for pod in standing.reading.pods}

    def sources(self) -> Iterator[tuple[str, bool, int]]:
        """Give each source's name, whether its last answer could be used whole, and how many agents it knows."""
        for name, addresses in self._static.by_source():
            yield name, name != "agents_file" or self._static.trouble is None, len(addresses)
        for standing in self.standings:
            reading = standing.reading
            yield standing.name, standing.trouble is None and not reading.missing, len(reading.sightings)
        if self.leases is not None:
            works = self.leases.trouble is None and not self.leases.conflicts()
            yield SOURCE, works, len(self.leases.sightings())

    def nodes_of(self, job: str | None) -> frozenset[str] | None:
        """Return the nodes on which a job runs, where a source knows, and still answers; None where none does."""
        current = [standing.reading.jobs for standing in self.standings if standing.trouble is None]
        known = [jobs[job] for jobs in current if job is not None and job in jobs]
        hosts = frozenset(chain.from_iterable(known))
        return hosts or None

    def _begin(self, standing: PolledSource) -> "asyncio.Task[None]":
        task = asyncio.create_task(
            standing.keep_fresh(period_seconds=self._period_seconds), name=f"agents from {standing.name}"
        )
        task.add_done_callback(partial(_note_end, standing))
        return task

    def _merged(self) -> Merged:
        """Merge again only when a source has changed: thousands of agents take tens of milliseconds."""
        leased = () if self.leases is None else self.leases.sightings()
        given = (self._static.by_source(), leased, tuple(standing.reading.sightings for standing in self.standings))
        if self._last is None or self._last[0] != given:
            self._last = (given, merge(_in_order(given)))
        return self._last[1]

    def _failing(self) -> Iterator[Missing]:
        if self._static.trouble is not None:
            yield self._static.trouble
        for standing in self.standings:
            if standing.trouble is not None:
                yield standing.trouble
            yield from standing.reading.missing
        if self.leases is not None:
            if self.leases.trouble is not None:
                yield self.leases.trouble
            yield from self.leases.conflicts()


def _in_order(given: _Given) -> Iterator[Sighting]:
    static, leased, read = given
    for source, addresses in static:
        yield from (Sighting(address, source) for address in addresses)
    yield from chain(leased, *read)


def _note_end(standing: PolledSource, task: "asyncio.Task[None]") -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        standing.give_up(error)


class SourceMetrics(Collector):
    """Gauges made when they are asked for."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def collect(self) -> list[GaugeMetricFamily]:
        """Say of each source whether its last answer could be used, and how many agents it knows."""
        up = GaugeMetricFamily("unhang_collector_source_up", "1 while a source of agents answers.", labels=["source"])
        agents = GaugeMetricFamily("unhang_collector_source_agents", "Agents known from a source.", labels=["source"])
        lost = GaugeMetricFamily("unhang_collector_agents_lost", "Agents whose registration has run out.")
        # Two URLs that differ in what is not shown have one name, and Prometheus takes no label twice.
        by_name: dict[str, tuple[bool, int]] = {}
        for name, works, count in self._directory.sources():
            others_work, others = by_name.get(name, (True, 0))
            by_name[name] = works and others_work, count + others
        for name, (works, count) in by_name.items():
            up.add_metric([name], works)
            agents.add_metric([name], count)
        leases = self._directory.leases
        lost.add_metric([], 0 if leases is None else leases.lost)
        return [up, agents, lost]
