"""What is missing is told once for all ranks of which the same is missing."""

from collector.show.text.coverage import fold_gaps, gap_text
from collector.show.text.markdown import render_markdown
from collector.show.text.text import render_text
from shared.answer.diagnosis import Coverage, Diagnosis, Gap
from shared.answer.words import Verdict
from shared.missing import Missing, Reason


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
