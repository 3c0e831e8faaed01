"""How many callers got nothing, by reason, for Prometheus."""

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from shared.server.audit import AuditLog, Refused


class RefusalMetrics(Collector):
    """`NAME_total` of one service, with every reason from the start: a rate needs a sample before the first event."""

    def __init__(self, name: str, audit: AuditLog) -> None:
        self._name = name
        self._audit = audit

    def collect(self) -> list[CounterMetricFamily]:
        """Return the counts as they are now."""
        family = CounterMetricFamily(
            self._name, "Callers that got nothing, those not written down too.", labels=["reason"]
        )
        counts = self._audit.refusals()
        for reason in Refused:
            family.add_metric([reason.value], counts[reason])
        return [family]
