"""What the collector counts about itself, in the text format of Prometheus.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from shared import VERSION
from shared.diagnosis import Verdict
from shared.missing import Reason

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Counters:
    """Numbers that only grow while the service runs."""

    def __init__(self) -> None:
        self.diagnoses: Counter[Verdict] = Counter()
        self.failed = 0
        self.seconds = 0.0
        self.unanswered: Counter[Reason] = Counter()

    def render(self, *, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all samples; `gauges` holds what the service is now: name to (help, value)."""
        verdicts = ((f'verdict="{verdict}"', self.diagnoses[verdict]) for verdict in Verdict)
        reasons = ((f'reason="{reason}"', self.unanswered[reason]) for reason in Reason)
        lines = [
            *_family("build_info", "gauge", "The version that runs.", [(f'version="{VERSION}"', 1)]),
            *_family("diagnoses_total", "counter", "Diagnoses made, by verdict.", verdicts),
            *_family("diagnoses_failed_total", "counter", "Diagnoses that ended in an error.", [("", self.failed)]),
            *_family("diagnosis_seconds_total", "counter", "Time spent on diagnoses.", [("", self.seconds)]),
            *_family("unanswered_total", "counter", "Requests that an agent did not answer, by reason.", reasons),
        ]
        for name, (help_text, value) in gauges.items():
            lines += _family(name, "gauge", help_text, [("", value)])
        return "\n".join(lines) + "\n"


def _family(name: str, kind: str, help_text: str, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    full = f"unhang_collector_{name}"
    yield f"# HELP {full} {help_text}"
    yield f"# TYPE {full} {kind}"
    for labels, value in samples:
        yield f"{full}{{{labels}}} {value:g}" if labels else f"{full} {value:g}"
