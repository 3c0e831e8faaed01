"""Hosts, looked at over the user's own ssh: no agent needs to run there, and nobody need have prepared anything."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from cli.sources.bundle import save_bundle
from cli.sources.helpers import Helpers
from cli.sources.source import Aspect, Choice, DeepChoice, Jobs, V, Verdict, Wanted, make_view
from cli.sources.ssh_command import Look, Way
from cli.sources.ssh_round import Round, Visit
from collector.diagnose.expected import Expected, Unanswered
from collector.fanout import Deadline
from collector.gathering import tell
from collector.jobs import choose_job, concerns, neighbours_of, ranks_of, summarise_jobs
from collector.judgement import judge
from collector.question import Progress, Stage, Step
from shared.deep_looks import DeepLook
from shared.errors import InvalidInput
from shared.missing import Missing
from shared.snapshot import NodeSnapshot, RankList

_LOGIN_SECONDS = 15.0
_LOOK_SECONDS = 10.0
"""An agent gives up on a look after as long."""

MOST_AT_ONCE = 64
"""Connections at once, as ClusterShell has it."""


@dataclass(frozen=True)
class Seen:
    """What the hosts told, and which of them did not."""

    snapshots: tuple[NodeSnapshot, ...]
    expected: Expected


class Ssh:
    """The ranks on several hosts."""

    def __init__(self, hosts: Sequence[str], way: Way, *, most_at_once: int = MOST_AT_ONCE) -> None:
        """`hosts` as `parse_host_names` gives them: none begins with a dash."""
        self._hosts = tuple(hosts)
        self._way = way
        self._most_at_once = most_at_once

    def jobs(self) -> Jobs:
        """Return the jobs that run there."""
        visits = self._visit(Look(count=1, stacks="none"), None, None)
        lists = [_who(visit.looks) for visit in visits if visit.looks]
        silent = tuple(Unanswered(host=v.host, missing=v.missing) for v in visits if v.missing is not None)
        return Jobs(jobs=summarise_jobs(lists), unanswered=silent)

    def diagnose(self, wanted: Wanted, progress: Progress | None) -> Verdict:
        """Have each host look twice, and judge what they saw."""
        question = wanted.question()
        look = Look(
            job=question.job,
            count=question.looks,
            interval_seconds=question.interval_seconds,
            stacks="native" if question.native.value == "all" else "plain",
        )
        began = time.monotonic()
        seen = _seen(question.job, self._visit(look, wanted.timeout_seconds, progress))
        diagnosis = judge(seen.snapshots, seen.expected)
        took = round(time.monotonic() - began, 3)
        diagnosis = diagnosis.model_copy(update={"took_seconds": took})
        return Verdict(diagnosis, lambda to: save_bundle(to, diagnosis, seen.expected, seen.snapshots))

    def view(self, aspect: Aspect[V], choice: Choice) -> V:
        """Have each host look once, and return one aspect."""
        stacks = "none" if not aspect.with_stacks else "native" if choice.native else "plain"
        seen = _seen(choice.job, self._visit(Look(job=choice.job, count=1, stacks=stacks), None, None))
        return make_view(aspect, choice, seen.snapshots, seen.expected)

    def look_closely(self, choice: DeepChoice) -> DeepLook:
        """A debugger is run on the host itself. Raises InvalidInput."""
        raise InvalidInput(
            "a closer look is taken on the host itself", advice=f"ssh -t HOST unhang look --rank {choice.rank}"
        )

    def _visit(self, look: Look, timeout_seconds: float | None, progress: Progress | None) -> tuple[Visit, ...]:
        host_seconds = _LOGIN_SECONDS + look.count * _LOOK_SECONDS + (look.count - 1) * look.interval_seconds
        waves = math.ceil(len(self._hosts) / self._most_at_once)
        step = Step(stage=Stage.LOOKING, look=1, asked=len(self._hosts))

        async def run(helpers: Helpers) -> tuple[Visit, ...]:
            deadline = Deadline.within(timeout_seconds or host_seconds * waves)
            each = Round(self._way, look, most_at_once=self._most_at_once, host_seconds=host_seconds, deadline=deadline)
            with helpers.ended_by_interrupt():
                await tell(progress, step)
                visits = await each.visit_all(
                    self._hosts, lambda done: tell(progress, step.model_copy(update={"finished": done}))
                )
                await tell(progress, Step(stage=Stage.JUDGING))
                return visits

        with Helpers() as helpers:
            return asyncio.run(run(helpers))


def _seen(job: str | None, visits: Sequence[Visit]) -> Seen:
    """Choose the job, and sort out which hosts have to do with it. Raises as `choose_job` does."""
    lists = {visit.host: _who(visit.looks) for visit in visits if visit.looks}
    job = choose_job(job, lists.values(), some_silent=any(not visit.looks for visit in visits))
    snapshots: list[NodeSnapshot] = []
    unanswered: list[Unanswered] = []
    unreadable: list[Missing] = []
    known: set[tuple[str, int | None, float | None]] = set()
    for visit in visits:
        who = lists.get(visit.host)
        if visit.missing is not None and who is None:
            unanswered.append(Unanswered(host=visit.host, missing=visit.missing))
        if who is None or not concerns(who, job):
            continue
        processes = {(who.host, rank.pid, rank.started_at) for rank in who.ranks}
        if processes and processes <= known:  # another name of a host that has told already
            continue
        known |= processes
        snapshots.extend(visit.looks)
        if visit.missing is not None:
            detail = f"only {len(visit.looks)} of its looks came (ranks {ranks_of(who, job)}): {visit.missing.detail}"
            unreadable.append(visit.missing.model_copy(update={"detail": detail}))
    expected = Expected(
        job=job,
        neighbours=neighbours_of(job, lists.values()),
        unanswered=tuple(unanswered),
        unreadable=tuple(unreadable),
    )
    return Seen(tuple(snapshots), expected)


def _who(looks: Sequence[NodeSnapshot]) -> RankList:
    last = looks[-1]
    ranks = tuple(rank.identity for rank in last.ranks)
    return RankList(host=last.host or "", ranks=ranks, exited=last.exited, missing=last.missing)
