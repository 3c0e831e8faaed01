"""The agent's Prometheus metrics, about itself and about the ranks that it watches."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from agent.look.node import Node
from shared import VERSION
from shared.missing import Reason
from shared.server.audit import AuditLog
from shared.server.refusal_metrics import RefusalMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The counters of one agent, in a registry of their own."""

    def __init__(self, node: Node, audit: AuditLog) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="unhang_agent", registry=self.registry)
        self._source_seconds = Histogram(
            "unhang_agent_source_seconds",
            "Time that one source took to look at one rank.",
            ["source"],
            registry=self.registry,
            buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.3, 1, 3, 10),
        )
        self._missing = Counter(
            "unhang_agent_source_missing", "Looks in which a source returned nothing.", ["source", "reason"],
            registry=self.registry,
        )  # fmt: skip
        self._snapshots = Counter("unhang_agent_snapshots", "Snapshots of this node requested.", registry=self.registry)
        self._refusals = Counter(
            "unhang_agent_problems", "Requests answered with a problem.", ["status"], registry=self.registry
        )
        Gauge("unhang_agent_info", "Always 1.", ["version"], registry=self.registry).labels(VERSION).set(1)
        self.registry.register(_Ranks(node))
        self.registry.register(RefusalMetrics("unhang_agent_refused", audit))

    def source_done(self, source: str, seconds: float, reason: Reason | None) -> None:
        """Count one look of one source."""
        self._source_seconds.labels(source).observe(seconds)
        if reason is not None:
            self._missing.labels(source, reason.value).inc()

    def snapshot_taken(self) -> None:
        """Count one snapshot."""
        self._snapshots.inc()

    def problem_answered(self, status: int) -> None:
        """Count one request that went wrong."""
        self._refusals.labels(str(status)).inc()

    def page(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry)


class _Ranks(Collector):
    """Gauges of the watched ranks, made when they are asked for."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> list[GaugeMetricFamily]:
        watch = self._node.watch
        count = GaugeMetricFamily("unhang_ranks", "Living ranks on this node.", labels=["job"])
        idle = GaugeMetricFamily("unhang_rank_idle_seconds", "Time without progress of a rank.", labels=["job", "rank"])
        late = GaugeMetricFamily("unhang_agent_abandoned_tasks", "Looks that never returned.")
        jobs: dict[str, int] = {}
        for rank in watch.ranks:
            job = rank.identity.job or ""
            jobs[job] = jobs.get(job, 0) + 1
            seconds = watch.idle_for_seconds(rank.key)
            if seconds is not None:
                idle.add_metric([job, str(rank.identity.rank)], seconds)
        for job, ranks in jobs.items():
            count.add_metric([job], ranks)
        late.add_metric([], self._node.abandoned)
        avoided = GaugeMetricFamily(
            "unhang_agent_avoided_processes", "Processes that are not read because that blocked.", labels=["user"]
        )
        for each in self._node.avoided():
            avoided.add_metric([each.user or ""], len(each.pids))
        return [count, idle, late, avoided]
