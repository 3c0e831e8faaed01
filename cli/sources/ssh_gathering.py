"""One job on several hosts, gathered over ssh in up to three rounds.

1. Each host looks twice, some seconds apart, over one connection.
2. The few hosts whose ranks the verdict asks about read the native stacks of those ranks.
3. Where more looks would decide, the hosts of the job look again: from time to time for a doubt, until it is settled or
   patience ends, or many times quickly for a straggler.

A host that fails in a later round keeps what it has told; what it does not tell then is said to be missing. Steps 2
and 3 are for what is left of the deadline, where there is one.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cli.sources.ssh_command import HostQuestion, Way
from cli.sources.ssh_hosts import Seen, see
from cli.sources.ssh_round import HostVisit, SshRound
from collector.gather.asked import tell
from collector.gather.fanout.values import RequestDeadline
from collector.looks.next_looks import further_looks, pids_to_look_deeper
from collector.question import NativePolicy, Progress, Question, Stage, Step
from shared.missing import Missing

_LOGIN_SECONDS = 15.0
_LOOK_SECONDS = 10.0
"""An agent gives up on a look after as long."""

_LEAST_SECONDS = 1.0
"""With less left nobody is visited again."""


class SshGathering:
    """The rounds of one question."""

    def __init__(
        self, way: Way, *, most_at_once: int, timeout_seconds: float | None = None, progress: Progress | None = None
    ) -> None:
        self._way = way
        self._most_at_once = most_at_once
        self._deadline = RequestDeadline.within(math.inf if timeout_seconds is None else timeout_seconds)
        self._progress = progress
        self._visits: dict[str, HostVisit] = {}
        self._unreadable: list[Missing] = []

    async def gather(self, hosts: Sequence[str], question: Question) -> Seen:
        """Take the three steps; raises as `choose_job` does."""
        look = HostQuestion(question.job, question.looks, question.interval_seconds, question.stacks)
        first = await self.visit(everywhere(hosts, look), Step(stage=Stage.LOOKING, look=1))
        self._visits = {visit.host: visit for visit in first}
        job = self._seen(question.job).expected.job
        await self._look_deeper(job, question)
        await self._look_further(job, question)
        return self._seen(job)

    async def visit(self, looks: Sequence[tuple[str, HostQuestion]], step: Step) -> tuple[HostVisit, ...]:
        """Visit each host once, under a deadline of the round's own."""
        host_seconds = max(_host_seconds(look) for _, look in looks)
        deadline = self._deadline.earlier(host_seconds * math.ceil(len(looks) / self._most_at_once))
        each = SshRound(self._way, most_at_once=self._most_at_once, host_seconds=host_seconds, deadline=deadline)
        step = step.model_copy(update={"asked": len(looks)})
        await tell(self._progress, step)
        return await each.visit_all(
            looks, lambda done: tell(self._progress, step.model_copy(update={"finished": done}))
        )

    def _seen(self, job: str | None) -> Seen:
        return see(job, tuple(self._visits.values()), self._unreadable)

    async def _look_deeper(self, job: str | None, question: Question) -> None:
        """Step 2."""
        if question.native is NativePolicy.NEVER or self._deadline.seconds_left < _LEAST_SECONDS:
            return
        look = HostQuestion(job, count=1, stacks="native")
        asked = await asyncio.to_thread(_pids_by_host, self._seen(job), everybody=question.native is NativePolicy.ALL)
        looks = [(host, replace(look, pids=pids)) for host, pids in asked.items()]
        await self._visit_again(looks, Step(stage=Stage.LOOKING_DEEPER), "native stacks")

    async def _look_further(self, job: str | None, question: Question) -> None:
        """Step 3."""
        patience = self._patience(question)
        self._deadline = RequestDeadline(max(self._deadline.at, patience.at))
        number = question.looks
        while number > 1:
            seen = self._seen(job)
            further = await asyncio.to_thread(further_looks, seen.snapshots, seen.expected)
            until = patience if further.reason else self._deadline
            hosts = [visit.host for visit in seen.visits if visit.missing is None]
            if not further.pauses or not hosts or until.seconds_left < further.seconds + _LEAST_SECONDS:
                return
            number += 1
            look = HostQuestion(job, 1 + len(further.pauses), further.pauses[-1], question.stacks)
            step = Step(stage=Stage.WAITING, look=number, seconds=further.seconds, reason=further.reason)
            await self._visit_again([(host, look) for host in hosts], step, "further looks")
            if not further.reason:
                return

    def _patience(self, question: Question) -> RequestDeadline:
        """Return until when to go on where only time decides."""
        if math.isinf(self._deadline.at):
            return RequestDeadline.within(question.patience_seconds)
        return RequestDeadline(self._deadline.at + question.patience_seconds)

    async def _visit_again(self, looks: Sequence[tuple[str, HostQuestion]], step: Step, what: str) -> None:
        """Visit hosts that have told already, and keep what they add to that."""
        for visit in await self.visit(looks, step) if looks else ():
            before = self._visits[visit.host]
            self._visits[visit.host] = replace(before, looks=(*before.looks, *visit.looks))
            if visit.missing is not None:
                detail = f"{what}: {visit.missing.detail}"
                self._unreadable.append(visit.missing.model_copy(update={"detail": detail}))


def everywhere(hosts: Sequence[str], look: HostQuestion) -> list[tuple[str, HostQuestion]]:
    """Return the same look for all hosts; the first and the last ask NCCL's RAS, too.

    Its report is of the whole job, and each question costs all of it a message: two ask, one to spare.
    """
    return [(host, replace(look, ras=host in (hosts[0], hosts[-1]))) for host in hosts]


def _host_seconds(look: HostQuestion) -> float:
    return _LOGIN_SECONDS + look.count * _LOOK_SECONDS + (look.count - 1) * look.interval_seconds


def _pids_by_host(seen: Seen, *, everybody: bool) -> Mapping[str, tuple[int, ...]]:
    """Return which processes of which hosts to look at natively; no pids of a host: all ranks there."""
    if everybody:
        return {visit.host: () for visit in seen.visits if visit.missing is None}
    homes = seen.homes
    pids: dict[str, list[int]] = defaultdict(list)
    for host, pid in pids_to_look_deeper(seen.snapshots, seen.expected):
        if (host, pid) in homes:
            pids[homes[host, pid]].append(pid)
    return {host: tuple(sorted(each)) for host, each in pids.items()}
