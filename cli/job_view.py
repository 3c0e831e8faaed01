"""What the commands that show one aspect of a job have in common."""

from typing import TYPE_CHECKING

from cli.errors import named_job_needed
from cli.sources.job_source import Aspect, JobChoice, JobSource, V
from cli.terminal import note
from collector.show.text.coverage import fold_gaps, gap_text
from shared.answer.diagnosis import Gap

if TYPE_CHECKING:
    from collector.show.views import View


def ask_view(source: JobSource, aspect: Aspect[V], choice: JobChoice) -> V:
    """Return one aspect of the job, or complain that it must be named."""
    with named_job_needed(choice.job):
        return source.view(aspect, choice)


def tell_gaps(view: "View", what: str) -> None:
    """Say on stderr whose answer is not in what was printed, and why."""
    gaps = [Gap(ranks=str(gap.rank), host=gap.host, missing=gap.missing) for gap in view.gaps]
    gaps += [Gap(ranks=silent.ranks, host=silent.host, missing=silent.missing) for silent in view.unanswered]
    for gap in fold_gaps(gaps):
        note(f"no {what}: {gap_text(gap)}")
