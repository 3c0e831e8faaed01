"""Hosts, looked at over the user's own ssh: no agent needs to run there, and nobody need have prepared anything."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from cli.sources.bundle import judged_here
from cli.sources.helpers import run_with_helpers
from cli.sources.job_source import Aspect, DeepChoice, JobChoice, JobNames, JudgedJob, V, Wanted, make_view
from cli.sources.ssh_command import HostQuestion, Way
from cli.sources.ssh_gathering import SshGathering, everywhere
from cli.sources.ssh_hosts import see, who
from cli.sources.ssh_round import HostVisit
from collector.align.expected import Unanswered
from collector.gather.asked import tell
from collector.gather.jobs import summarise_jobs, unread_by
from collector.gather.judge_and_stamp import judge
from collector.question import Progress, Stage, Step
from shared.errors import InvalidInput
from shared.wire.debug_output import DeepLook

MOST_AT_ONCE = 64
"""Connections at once, as ClusterShell has it."""


class Ssh:
    """The ranks on several hosts."""

    def __init__(
        self, hosts: Sequence[str], way: Way, *, most_at_once: int = MOST_AT_ONCE, job: str | None = None
    ) -> None:
        """`hosts` as `parse_host_names` gives them: none begins with a dash. `job` is meant where none is named."""
        self._hosts = tuple(hosts)
        self._way = way
        self._most_at_once = most_at_once
        self._job = job

    def jobs(self) -> JobNames:
        """Return the jobs that run there."""
        visits = self._look_once(HostQuestion(count=1, stacks="none"))
        lists = [who(visit.looks) for visit in visits if visit.looks]
        silent = tuple(Unanswered(host=v.host, missing=v.missing) for v in visits if v.missing is not None)
        return JobNames(jobs=summarise_jobs(lists), unanswered=silent, unread=unread_by(lists))

    def diagnose(self, wanted: Wanted, progress: Progress | None) -> JudgedJob:
        """Have each host look twice, look closer at the few that the verdict asks about, and judge."""
        began = time.monotonic()
        wanted = replace(wanted, job=wanted.job or self._job)
        gathering = SshGathering(
            self._way, most_at_once=self._most_at_once, timeout_seconds=wanted.timeout_seconds, progress=progress
        )

        async def run() -> JudgedJob:
            seen = await gathering.gather(self._hosts, wanted.question())
            await tell(progress, Step(stage=Stage.JUDGING))
            diagnosis = await asyncio.to_thread(judge, seen.snapshots, seen.expected)
            diagnosis = diagnosis.model_copy(update={"took_seconds": round(time.monotonic() - began, 3)})
            return judged_here(diagnosis, seen.expected, seen.snapshots)

        return run_with_helpers(run)

    def view(self, aspect: Aspect[V], choice: JobChoice) -> V:
        """Have each host look once, and return one aspect."""
        choice = replace(choice, job=choice.job or self._job)
        stacks = "none" if not aspect.with_stacks else "native" if choice.native else "plain"
        seen = see(choice.job, self._look_once(HostQuestion(job=choice.job, count=1, stacks=stacks)))
        return make_view(aspect, choice, seen.snapshots, seen.expected)

    def look_closely(self, choice: DeepChoice) -> DeepLook:
        """A debugger is run on the host itself. Raises InvalidInput."""
        raise InvalidInput(
            "a closer look is taken on the host itself", advice=f"ssh -t HOST unhang look --rank {choice.rank}"
        )

    def _look_once(self, look: HostQuestion) -> tuple[HostVisit, ...]:
        gathering = SshGathering(self._way, most_at_once=self._most_at_once)
        return run_with_helpers(
            lambda: gathering.visit(everywhere(self._hosts, look), Step(stage=Stage.LOOKING, look=1))
        )
