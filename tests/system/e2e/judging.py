"""What is right to say of the two jobs of these tests, whatever is broken around them."""

from shared.answer.words import Certainty, Kind, Verdict
from tests.system.e2e.asking import Told
from tests.system.e2e.jobs import ranks_of

CULPRIT, HOME = 2, "node2"
"""Who sleeps in the job that hangs, and where."""


def assert_it_trains(told: Told, *, slow: frozenset[int] = frozenset()) -> None:
    """A job that trains, however slowly, is never called hung; of `slow` ranks it may be said that they are."""
    assert told.diagnosis.verdict is not Verdict.HUNG, told.text
    assert told.culprits <= slow, told.text


def assert_hang_is_judged(told: Told, *, broken: str) -> None:
    """The hang is told with its culprit, unless the node that is broken is the culprit's own: then the node is."""
    verdict = told.diagnosis.verdict
    if told.culprits == {CULPRIT}:
        (finding,) = told.diagnosis.findings
        assert (verdict, finding.culprits[0].host) == (Verdict.HUNG, HOME), told.text
        return
    assert broken == HOME, told.text
    assert HOME in told.diagnosis.headline, told.text
    if verdict is not Verdict.CANNOT_TELL:
        (finding,) = told.diagnosis.findings
        assert (verdict, finding.kind) == (Verdict.HUNG, Kind.RANK_UNREACHABLE), told.text
        assert finding.certainty is not Certainty.PROVEN and told.culprits <= ranks_of(HOME), told.text
