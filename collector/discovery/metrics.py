"""What Prometheus is told of each source of agents."""

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from collector.discovery.directory import Directory


class SourceMetrics(Collector):
    """Gauges made when they are asked for."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def collect(self) -> list[GaugeMetricFamily]:
        """Say of each source whether its last answer could be used, and how many agents it knows."""
        up = GaugeMetricFamily("unhang_collector_source_up", "1 while a source of agents answers.", labels=["source"])
        agents = GaugeMetricFamily("unhang_collector_source_agents", "Agents that a source knows.", labels=["source"])
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
