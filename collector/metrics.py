"""The collector's own Prometheus metrics."""

import math
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from collector.gather.failures import Again
from shared import VERSION
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from shared.missing import Missing, Reason

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Counters:
    """The metrics of one collector, in a registry of their own."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        ProcessCollector(namespace="unhang_collector", registry=registry)
        self._registry = registry
        self._made = Counter("unhang_collector_diagnoses", "Diagnoses made.", ["verdict"], registry=registry)
        self._failed = Counter(
            "unhang_collector_diagnoses_failed", "Diagnoses that ended in an error, unknown jobs included.",
            registry=registry,
        )  # fmt: skip
        self._not_kept = Counter(
            "unhang_collector_diagnoses_not_kept", "Diagnoses made that the store did not take.", registry=registry
        )
        self._seconds = Histogram(
            "unhang_collector_diagnosis_seconds",
            "Time from the question to the verdict.",
            registry=registry,
            buckets=(0.3, 1, 3, 5, 10, 20, 30, 60, 120, 300),
        )
        self._unanswered = Counter(
            "unhang_collector_unanswered", "Requests that an agent did not answer.", ["reason"], registry=registry
        )
        self._again = Counter(
            "unhang_collector_asked_again", "Agents asked once more in one round.", ["why"], registry=registry
        )
        self._helped = Counter(
            "unhang_collector_answered_again", "Answers that came of asking once more.", ["why"], registry=registry
        )
        self._now = {
            name: Gauge(f"unhang_collector_{name}", text, registry=registry)
            for name, text in (
                ("agents", "Agents in the inventory."),
                ("running", "Diagnoses being made."),
                ("kept", "Diagnoses kept in the store."),
                ("kept_bytes", "Size of the diagnoses kept, compressed."),
                ("store_up", "1 while the store can be read."),
            )
        }
        Gauge("unhang_collector_info", "Always 1.", ["version"], registry=registry).labels(VERSION).set(1)
        _begin_at_zero(self._made, Verdict)
        _begin_at_zero(self._unanswered, Reason)
        _begin_at_zero(self._again, Again)
        _begin_at_zero(self._helped, Again)

    def diagnosis_made(self, diagnosis: Diagnosis) -> None:
        """Count one diagnosis."""
        self._made.labels(diagnosis.verdict.value).inc()
        self._seconds.observe(diagnosis.took_seconds)

    def diagnosis_failed(self) -> None:
        """Count one diagnosis that came to nothing."""
        self._failed.inc()

    def diagnosis_not_kept(self) -> None:
        """Count one diagnosis that only its callers have."""
        self._not_kept.inc()

    def agent_silent(self, missing: Missing) -> None:
        """Count one request without an answer."""
        self._unanswered.labels(missing.reason.value).inc()

    def asked_again(self, why: Again) -> None:
        """Count one request that was made once more."""
        self._again.labels(why.value).inc()

    def answered_again(self, why: Again) -> None:
        """Count one answer that came of it."""
        self._helped.labels(why.value).inc()

    def include(self, more: Collector) -> None:
        """Show metrics that another part counts on the same page."""
        self._registry.register(more)

    def page(self, *, agents: int, running: int, kept: tuple[int, int] | None) -> bytes:
        """Return everything in Prometheus' text format, with how things are now; `kept` is None of a broken store."""
        count, size = (math.nan, math.nan) if kept is None else kept
        now = {"agents": agents, "running": running, "kept": count, "kept_bytes": size, "store_up": kept is not None}
        for name, value in now.items():
            self._now[name].set(value)
        return generate_latest(self._registry)


def _begin_at_zero(counter: Counter, labels: Iterable[str]) -> None:
    """Show every label from the start: a rate needs a sample before the first event."""
    for label in labels:
        counter.labels(label)
