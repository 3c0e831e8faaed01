"""Every voter on log lines is needed: without it, its case of the table is told another way, or not at all.

What has no case here has no place among the voters.
"""

import pytest

from collector.judge import by_logs
from tests.build.jobs.cases import LOG_CASES

NEEDED = {
    "opinions_by_failures": "what ended: speaks for itself",
    "opinions_by_marks": "counters: the minority at one sequence is odd",
    "opinions_by_sizes": "sizes that differ: models that differ",
    "opinions_by_libraries": "who did not come: a wait without a name names nobody",
    "opinions_by_own_words": "own words: who failed while the others waited",
    "opinions_by_rendezvous": "who did not come: a start that still waits names the one who lacks",
    "opinions_by_transport": "connections: a flushed queue is told only where nothing else is",
}
"""By voter, a case that nobody else can read so."""


@pytest.mark.parametrize("voter", NEEDED)
def test_without_its_voter_the_case_is_not_told_so(voter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = LOG_CASES[NEEDED[voter]]
    whole = [(finding.kind, finding.culprit_ranks, finding.summary) for finding in case.diagnosis.findings]
    monkeypatch.setattr(by_logs, voter, lambda *_: ())
    assert [(each.kind, each.culprit_ranks, each.summary) for each in case.diagnosis.findings] != whole


def test_every_voter_has_a_case_that_needs_it() -> None:
    assert NEEDED.keys() == {name for name in vars(by_logs) if name.startswith("opinions_by_")}
