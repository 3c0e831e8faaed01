"""How what is wrong in the start of a job is shown: on its own, and under a verdict."""

from collector.show.text.checks import render_checks
from collector.show.text.markdown import render_markdown
from collector.show.text.text import render_text
from shared.answer.checks import Check, CheckId, Severity
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict

WRONG = Check(
    id=CheckId.PORT_TAKEN,
    severity=Severity.WRONG,
    ranks="0",
    hosts=("node1",),
    seen="pid 77 (\x1b[2Jevil`) listens on 0.0.0.0:29500",
    why="rank 0 cannot open its store there",
    change="choose another MASTER_PORT",
)
NOTE = WRONG.model_copy(update={"id": CheckId.NCCL_SILENT, "severity": Severity.NOTE, "seen": "NCCL_DEBUG is not set"})


def verdict(*checks: Check) -> Diagnosis:
    """A verdict with these checks."""
    return Diagnosis(verdict=Verdict.CANNOT_TELL, headline="Cannot tell.", checks=checks)


def test_page() -> None:
    """Four lines a check; what the job wrote is shown and steers nothing; nothing is wider than asked for."""
    text = render_checks((WRONG, NOTE), looked_at="0-3", colour=False, width=60)
    assert text.splitlines()[0] == "WRONG  port_taken"
    assert "\x1b" not in text
    assert "choose another MASTER_PORT" in text
    assert all(len(line) <= 60 for line in text.splitlines())


def test_nothing_to_say() -> None:
    """All is well, and nothing is known, are two things."""
    assert render_checks((), looked_at="0-3", colour=False, width=80) == "no problems found\n"
    assert render_checks((), looked_at="", colour=False, width=80) == "nothing could be checked\n"


def test_under_a_verdict() -> None:
    """The grave ones in full, notes as a number; nothing where there are notes alone."""
    for rendered in (render_text(verdict(WRONG, NOTE), colour=False, width=80), render_markdown(verdict(WRONG, NOTE))):
        assert "Launch checks" in rendered
        assert "port_taken" in rendered
        assert "and 1 note; run `unhang check` to see all" in rendered
        assert "NCCL_DEBUG" not in rendered
    assert "Launch checks" not in render_text(verdict(NOTE), colour=False, width=80)
