"""The metrics of notifying, in a form that Prometheus' rules can be written for before anything fails."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from collector.keep.watched.deliveries import Backlog
from collector.notify.notifier import Notifier

_NONE = Backlog(0, 0)


class NotifyMetrics(Collector):
    """What notifying comes to, for each receiver; without a notify file there are no samples."""

    def __init__(self, notifier: Notifier | None) -> None:
        self._notifier = notifier

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        counters = {
            outcome: CounterMetricFamily(f"unhang_collector_deliveries_{outcome}", text, labels=["receiver"])
            for outcome, text in (
                ("sent", "Messages that a receiver took."),
                ("failed", "Attempts that a receiver did not take."),
                ("given_up", "Messages that were given up."),
            )
        }
        gauges = {
            name: GaugeMetricFamily(f"unhang_collector_deliveries_{name}", text, labels=["receiver"])
            for name, text in (
                ("waiting", "Messages that a receiver has not been sent yet."),
                ("failing", "Of these and of repeated ones, those that failed in the last attempt."),
            )
        }
        notifier = self._notifier
        for receiver in () if notifier is None else notifier.names:
            assert notifier is not None
            for outcome, counts in (
                ("sent", notifier.sent),
                ("failed", notifier.failed),
                ("given_up", notifier.given_up),
            ):
                counters[outcome].add_metric([receiver], counts[receiver])
            backlog = notifier.backlog.get(receiver, _NONE)
            gauges["waiting"].add_metric([receiver], backlog.waiting)
            gauges["failing"].add_metric([receiver], backlog.failing)
        yield from counters.values()
        yield from gauges.values()
