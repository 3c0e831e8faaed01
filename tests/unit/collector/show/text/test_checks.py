"""Parts of a verdict as text: what is wrong in the start of a job, what is missing, and evidence of nodes."""

from collector.show.text.checks import render_checks
from collector.show.text.coverage import fold_gaps, gap_text
from collector.show.text.evidence import evidence_lines
from collector.show.text.markdown import render_markdown
from collector.show.text.text import render_text
from shared.answer.checks import Check, CheckId, Severity
from shared.answer.diagnosis import Coverage, Diagnosis, Evidence, Finding, Gap, GpuEvidence, KernelEvidence
from shared.answer.words import Certainty, Kind, Verdict
from shared.missing import Missing, Reason

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


def unread(rank: int, detail: str, reason: Reason = Reason.UNREADABLE) -> Gap:
    return Gap(ranks=str(rank), host="a", missing=Missing(source="recorder", reason=reason, detail=detail))


def test_what_cannot_be_read_is_told_once_for_all_its_ranks() -> None:
    """Pids and addresses differ, and the sentence is the same."""
    gaps = [unread(rank, f"process {700 + rank} has no 8 bytes of memory at {rank:#x}00") for rank in range(4)]
    gaps.append(unread(4, "a map of 7 items"))
    told = [gap_text(gap) for gap in fold_gaps(gaps)]
    assert told == [
        "ranks 0-3 on a: recorder unreadable — process 700 has no 8 bytes of memory at 0x000; the others differ in "
        "their numbers alone",
        "rank 4 on a: recorder unreadable — a map of 7 items",
    ]


def test_other_numbers_are_kept_apart() -> None:
    """How late an answer came is said of each."""
    gaps = [unread(rank, f"no answer within {rank} s", Reason.TIMED_OUT) for rank in (1, 2)]
    assert len(fold_gaps(gaps)) == 2


def test_of_many_sentences_some_are_shown_and_the_rest_counted() -> None:
    """In the terminal and in a ticket alike."""
    gaps = tuple(unread(rank, f"a map of {'x' * rank}", Reason.TIMED_OUT) for rank in range(25))
    said = Diagnosis(verdict=Verdict.CANNOT_TELL, headline="x", coverage=Coverage(missing=gaps))
    for shown in (render_text(said, colour=False, width=120), render_markdown(said)):
        assert shown.count("a map of") == 20 and "… 5 more in the JSON output" in shown


LINE = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\x1b[31m"


def shown(*evidence: Evidence) -> list[str]:
    """The lines of a finding with some evidence."""
    finding = Finding(kind=Kind.STUCK_TOGETHER, certainty=Certainty.SUSPECTED, evidence=evidence)
    return ["".join(span.text for span in each) for each in evidence_lines(finding, 100)]


def test_line_of_the_kernel_stands_under_its_sentence() -> None:
    """Printable, whatever a process has named itself."""
    told = KernelEvidence(ranks="2-3", text="the kernel of b tells of Xid 79", host="b", line=LINE, at=1.0)
    lines = shown(told)
    assert lines[0] == "kernel  the kernel of b tells of Xid 79"
    assert "Xid (PCI:0000:3b:00): 79" in lines[1]
    assert "\x1b" not in "".join(lines)


def test_gpu_is_told_in_one_sentence() -> None:
    """It names the device."""
    told = GpuEvidence(ranks="3", text="GPU 1 of b: the driver says: GPU is lost", host="b", index=1)
    assert shown(told) == ["gpu  GPU 1 of b: the driver says: GPU is lost"]
