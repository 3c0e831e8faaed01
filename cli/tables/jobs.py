"""The table of jobs."""

import time

from cli.sources.job_source import JobNames
from cli.tables.table import table, text
from collector.gather.jobs import JobSummary
from collector.show.text.coverage import gap_text
from collector.show.text.waits import folded
from shared.answer.diagnosis import Gap

_HEADS = ("JOB", "OWNER", "STATE", "AGE", "RANKS", "ABSENT", "LAUNCHER", "HOSTS")
_MOST_HOSTS = 4
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def jobs_table(found: JobNames) -> str:
    """Return one line per job, else why there may be some; and one per agent that did not answer."""
    now = time.time()
    rows = [_row(job, now) for job in found.jobs]
    lines = table(_HEADS, rows) if rows else ["no jobs were found", *found.unread]
    for silent in found.unanswered:
        lines.append(gap_text(Gap(ranks=silent.ranks, host=silent.host, missing=silent.missing)))
    return text(lines)


def _row(job: JobSummary, now: float) -> tuple[str, ...]:
    older = (
        f" (left over: {', '.join(f'attempt {o.attempt}' for o in job.older_attempts)})" if job.older_attempts else ""
    )
    return (
        job.name,
        job.owner or job.user or "-",
        "-" if job.state is None else job.state.value,
        age_text(now - job.started_at) if job.started_at is not None else "-",
        f"{folded(job.ranks) or 'none'} of {'?' if job.world_size is None else job.world_size}",
        folded(job.absent) or "-",
        job.launcher or "-",
        _hosts(job.hosts) + older,
    )


def _hosts(hosts: tuple[str, ...]) -> str:
    more = f" +{len(hosts) - _MOST_HOSTS}" if len(hosts) > _MOST_HOSTS else ""
    return ",".join(hosts[:_MOST_HOSTS]) + more or "-"


def age_text(seconds: float) -> str:
    """Return `12 min`, in the largest unit that fits."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
