"""Files: snapshots, dumps and logs of a job that is gone, or a bundle."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path

from cli.sources.bundle import judged_here
from cli.sources.job_source import Aspect, DeepChoice, JobChoice, JobNames, JudgedJob, V, Wanted, jobs_in, make_view
from collector.files.diagnose_files import diagnose_directory, expect
from collector.files.read_directory import Recorded, read_recorded
from collector.files.tree.walk import DEFAULT_BOUNDS
from collector.question import Progress
from shared.errors import NotFound
from shared.wire.debug_output import DeepLook


class Files:
    """What lies in a directory or an archive."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @cached_property
    def _recorded(self) -> Recorded:
        return read_recorded(self._directory)

    def jobs(self) -> JobNames:
        """Return the jobs that the snapshots are of."""
        return jobs_in(self._recorded.snapshots)

    def diagnose(self, wanted: Wanted, progress: Progress | None) -> JudgedJob:
        """Judge what was recorded."""
        seconds = DEFAULT_BOUNDS.most_seconds if wanted.timeout_seconds is None else wanted.timeout_seconds
        bounds = replace(DEFAULT_BOUNDS, most_seconds=seconds)
        swept = diagnose_directory(self._directory, job=wanted.job, bounds=bounds)
        return judged_here(swept.diagnosis, swept.expected, swept.snapshots)

    def look_closely(self, choice: DeepChoice) -> DeepLook:
        """Files hold no process to look at. Raises NotFound."""
        raise NotFound("files contain no process to look at", advice="unhang core FILE reads a core file")

    def view(self, aspect: Aspect[V], choice: JobChoice) -> V:
        """Return one aspect of what was recorded."""
        return make_view(aspect, choice, self._recorded.snapshots, expect(self._recorded, choice.job))
