"""What the commands that show one aspect of a job have in common."""

from collections.abc import Callable

from cli.errors import named_job_needed
from cli.sources.job_source import Aspect, JobChoice, JobSource, V
from cli.terminal import answer, note
from collector.show.text.coverage import fold_gaps, gap_text
from shared.answer.diagnosis import Gap


def ask_view(source: JobSource, aspect: Aspect[V], choice: JobChoice) -> V:
    """Return one aspect of the job, or complain that it must be named."""
    with named_job_needed(choice.job):
        return source.view(aspect, choice)


def show(
    source: JobSource, aspect: Aspect[V], choice: JobChoice, as_json: bool, as_text: Callable[[V], str], what: str
) -> V:
    """Print one aspect of the job; as text also say on stderr whose `what` is not in it, and why."""
    view = ask_view(source, aspect, choice)
    answer(view, as_json, as_text)
    if as_json:
        return view
    gaps = [Gap(ranks=str(gap.rank), host=gap.host, missing=gap.missing) for gap in view.gaps]
    gaps += [Gap(ranks=silent.ranks, host=silent.host, missing=silent.missing) for silent in view.unanswered]
    for gap in fold_gaps(gaps):
        note(f"no {what}: {gap_text(gap)}")
    return view
