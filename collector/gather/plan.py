"""Ask all agents about one job: steps 1 to 4 of a sweep (see `sweep.py`).

A few agents look at everything, twice; once, where they have watched all ranks stand still. Many agents send surveys,
and only the ranks that the verdict is about are examined in full. Of a job that they watch they have told already where
its ranks stand: then few of them are asked, and all only where that leaves something open (`looks/few_looks.py`).

1. If the job is named, a survey also shows where its ranks are: no list of ranks is requested first.
2. A verdict on the survey shows whether it was enough. If agents have watched the ranks make no progress, and a flight
   record shows when the last operation was issued, one survey will do. Else there is another one after a pause.
3. The suspects, and some of each kind of bystander, are examined in full. That is a second look at them.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from collector.align.expected import Expected
from collector.align.marks.agent_marks import Reported
from collector.concurrency.threads import run_in_thread
from collector.gather.asked import AgentQueries, RankLists, tell
from collector.gather.clock_offsets import Clock
from collector.gather.fanout.values import RequestDeadline
from collector.gather.jobs import concerns
from collector.gather.time_budget import TimeBudget, all_too_late
from collector.gather.watched_agents import MOST_FEW, NOBODY_WATCHES, WatchedAgents
from collector.hostlists import AgentAddress
from collector.looks.few_looks import few_looks, first_ranks, goes_on
from collector.looks.next_looks import (
    NextLooks,
    Process,
    further_looks,
    next_looks,
    one_look_will_do,
    parts_are_late,
    pids_to_look_deeper,
)
from collector.question import NativePolicy, Progress, Question, Scope, Stage, Step
from shared.errors import InvalidInput, InvalidSettings
from shared.missing import Reason
from shared.rank_sets import unfold
from shared.wire.snapshot import NodeSnapshot, RankList

T = TypeVar("T")

FIND_SECONDS = 5.0
"""For the lists of ranks: these are cheap, so an agent that needs longer is in trouble."""

_MOVING_SECONDS = 1.0
"""Between two looks at a job that goes on: where they do not show that, looks at all follow, with a longer pause."""

_WORTH_ANOTHER_TRY = frozenset({Reason.UNREACHABLE, Reason.UNREADABLE})
"""Failures that may have been momentary, and cost no waiting."""


_LEAST_PAUSE = 2 / 3
"""Of the interval lies between the end of one look and the next, should the look have taken long.

The interval is counted from the beginning of a look, since ranks are read in the same order each time; yet a busy node
may read a rank late in one look and early in the next.
"""

MOST_WHOLE_LOOKS = 512
"""Ranks of a large job that are examined in full on request: about 40 MiB of answers."""


@dataclass(frozen=True)
class Gathered:
    """What the agents said about one job, not judged."""

    snapshots: tuple[NodeSnapshot, ...]
    packed: tuple[bytes, ...]
    """The same as they came, compressed, to be kept."""
    expected: Expected
    lists: Mapping[str, RankList]
    clocks: tuple[Clock, ...] = ()


class SweepPlan:
    """One sweep while it asks."""

    def __init__(
        self,
        question: Question,
        asking: AgentQueries,
        progress: Progress | None,
        watched: WatchedAgents = NOBODY_WATCHES,
    ) -> None:
        self._question = question
        self._watched = watched
        self._progress = progress
        self._asking = asking
        self._due = TimeBudget(self._asking.deadline)
        self._looks = 0
        self._is_patient = False
        self._looked_at = self._looked_until = 0.0

    @property
    def _deadline(self) -> RequestDeadline:
        """When the answers are due: sooner than the verdict is."""
        return self._due.answers

    async def gather(self, agents: Sequence[AgentAddress]) -> Gathered:
        """Take steps 1 to 4 and return what `diagnose` needs."""
        if not agents:
            raise InvalidSettings("no agents are known", advice="name them, e.g. --agents 'node[01-16]'")
        asking = self._asking
        if await self._look_at_few_of_many(agents):
            return self._gathered()
        found = await self._find_out(agents)
        if self._question.patience_seconds and not found.lists and all_too_late(each.missing for each in found.silent):
            self._due, least = self._patience(), self._question.deadline_seconds / 4
            found = await self._find_out(agents, within=max(least, self._question.patience_seconds / 2))
        asking.choose(found)
        targets = self._targets(agents, found)
        many = len(targets) > self._question.survey_above
        if many and self._question.scope is Scope.RANKS:
            await self._look_at_some(targets)
        elif many:
            await self._look_at_many(targets)
        else:
            await self._look_at_few(targets)
        return self._gathered()

    def _gathered(self) -> Gathered:
        asking = self._asking
        packed = tuple(answer.value.packed for answer in asking.answers)
        return Gathered(asking.snapshots, packed, asking.expected, asking.lists, asking.clocks)

    async def _look_at_few_of_many(self, agents: Sequence[AgentAddress]) -> bool:
        """Look at some ranks of a watched job, and at whom they wait for; False where that does not settle it."""
        reported, question = self._watched.reported, self._question
        many = question.job is not None and len(agents) > question.survey_above
        if reported is None or not many or question.scope is not Scope.SUSPECTS or question.native is NativePolicy.ALL:
            return False
        if reported.goes_on and question.looks > 1 and await self._see_moving(agents, reported):
            return True
        looks = None if reported.goes_on else await self._settle(agents, reported)
        if looks is None:
            self._asking.begin_anew()
            self._looks = 0
            return False
        await self._look_closer(looks)
        return True

    async def _see_moving(self, agents: Sequence[AgentAddress], reported: Reported) -> bool:
        """Look twice at some ranks of a job that goes on according to all its agents; False where that is not seen."""
        ranks = reported.on_the_nodes_of(first_ranks(reported))
        found = self._watched.agents_of(ranks, agents)
        if found is None or reported.untold or len(found) > MOST_FEW:
            return False
        self._asking.told = frozenset(reported.places.keys() - ranks)
        found = await self._survey(found)
        self._asking.choose(self._asking.surveyed())
        if not await self._wait(min(_MOVING_SECONDS, self._question.interval_seconds)):
            return False
        await self._survey(found)
        return await self._think(goes_on)

    async def _settle(self, agents: Sequence[AgentAddress], reported: Reported) -> NextLooks | None:
        live = frozenset(self._watched.urls.values())
        targets = [agent for agent in agents if agent.url not in live]  # of these nothing is known: they are asked, too
        asked: dict[str, AgentAddress] = {}
        ranks = first_ranks(reported) if reported.untold <= len(targets) * reported.most_of_a_node else frozenset()
        while ranks:
            ranks = reported.on_the_nodes_of(ranks)
            found = self._watched.agents_of(ranks, agents)
            targets += [agent for agent in found or () if agent.url not in asked]
            if found is None or not targets or len(asked) + len(targets) > MOST_FEW:
                return None
            asked.update((agent.url, agent) for agent in targets)
            self._asking.told = frozenset(reported.places.keys() - ranks)
            await self._survey(targets)
            self._asking.choose(self._asking.surveyed())
            few = await self._think(partial(few_looks, reported=reported))
            if few.settled is not None:
                return few.settled
            ranks, targets = (ranks | few.more if few.more - ranks else frozenset()), []
        return None

    async def _find_out(self, agents: Sequence[AgentAddress], *, within: float = FIND_SECONDS) -> RankLists:
        """Step 1, and of many agents a survey for it."""
        if self._question.job is not None and len(agents) > self._question.survey_above:
            await self._survey(agents)
            return self._asking.surveyed()
        budget = within if self._is_patient else min(within, self._question.deadline_seconds / 4)
        return await self._asking.list_ranks(agents, self._deadline.earlier(budget))

    def _targets(self, agents: Sequence[AgentAddress], found: RankLists) -> list[AgentAddress]:
        """Step 2: the agents worth looking through; of two addresses of one agent, the first."""
        again = {s.address.url for s in found.silent if s.missing.reason in _WORTH_ANOTHER_TRY}
        seen: set[tuple[str | None, int | None, float | None]] = set()
        targets = []
        for agent in agents:
            ranks = found.lists.get(agent.url)
            if ranks is None:
                targets.extend([agent] if agent.url in again else [])
            elif concerns(ranks, self._asking.job, self._asking.user):
                processes = {(ranks.host, rank.pid, rank.started_at) for rank in ranks.ranks}
                if not processes or not processes <= seen:
                    targets.append(agent)
                seen |= processes
        return targets

    async def _look_at_few(self, targets: list[AgentAddress]) -> None:
        for _ in range(self._looks, self._question.looks):
            if self._looks and await self._think(one_look_will_do):
                break
            if self._looks and not await self._wait(self._pause()):
                break
            self._looked_at = time.monotonic()
            targets = await self._look(targets)
            self._looked_until = time.monotonic()
        targets = await self._look_longer(targets)
        await self._look_deeper()
        await self._look_further(targets)

    async def _look_longer(self, targets: list[AgentAddress]) -> list[AgentAddress]:
        """Where a busy machine was too late with parts of all looks, look once more, with all patience."""
        if self._question.looks < 2 or not self._question.patience_seconds or not await self._think(parts_are_late):
            return targets
        if not self._is_patient:
            self._due = self._patience()
        return await self._look(targets)

    async def _look_at_many(self, targets: list[AgentAddress]) -> None:
        if not self._looks:
            targets = await self._survey(targets)
        if self._question.scope is Scope.NOBODY:
            return
        looks = await self._consider()
        if not looks.decided and self._looks < self._question.looks and await self._wait(self._pause()):
            targets = await self._survey(targets)
            looks = await self._consider()
        if looks.decided_after is not None and self._question.looks > 1:
            self._due = self._patience()
            if await self._wait(looks.decided_after, reason=looks.reason):
                await self._survey(targets)
                looks = await self._consider()
        await self._look_closer(looks)

    async def _look_at_some(self, targets: list[AgentAddress]) -> None:
        """Look at the ranks that were asked for, or at all if they are not that many. Raises InvalidInput."""
        asking, native = self._asking, self._question.native is NativePolicy.ALL
        if not self._looks:
            await self._survey(targets)
        chosen = asking.processes_of(unfold(self._question.ranks) or None)
        if len(chosen) > MOST_WHOLE_LOOKS:
            raise InvalidInput(
                f"{len(chosen)} ranks on {len(targets)} nodes are too many to examine in full",
                advice=f"name at most {MOST_WHOLE_LOOKS}, e.g. ranks=0-7",
            )
        asking.drop_looks()
        stacks = self._question.native.asked if native else {"stacks": self._question.stacks}
        step = Step(stage=Stage.LOOKING_CLOSER)
        await asking.look_again(chosen, stacks, self._deadline, step, what="a look at some ranks")

    async def _consider(self) -> NextLooks:
        return await self._think(next_looks)

    async def _think(self, what: Callable[[Sequence[NodeSnapshot], Expected], T]) -> T:
        """Return what the looks so far show, and note how long that took: the verdict will take as long."""
        began = time.monotonic()
        result = await run_in_thread(what, self._asking.snapshots, self._asking.expected)
        self._due.has_thought(time.monotonic() - began)
        return result

    async def _survey(self, agents: Sequence[AgentAddress]) -> list[AgentAddress]:
        answered = await self._asking.survey(agents, *self._next_look())
        self._looked_at = self._looked_until = time.monotonic()
        return answered

    async def _look(self, agents: Sequence[AgentAddress]) -> list[AgentAddress]:
        """Steps 2 and 3; returns those that answered, for the next look."""
        deadline, step = self._next_look()
        return await self._asking.look(agents, deadline, step, ras=step.look <= self._question.looks)

    def _next_look(self) -> tuple[RequestDeadline, Step]:
        """Return when the next look is due: what there is left is shared among those that are to come."""
        self._looks += 1
        left = self._deadline.seconds_left
        waits_left = max(0, self._question.looks - self._looks)
        if waits_left * self._question.interval_seconds >= left:
            waits_left = 0
        spare = left - waits_left * self._question.interval_seconds
        deadline = self._deadline.earlier(spare / (waits_left + 2))
        return deadline, Step(stage=Stage.LOOKING, look=self._looks)

    async def _look_further(self, targets: Sequence[AgentAddress]) -> None:
        """Step 3 again, where more looks would decide: more time for a doubt, quick samples for a straggler."""
        if self._question.looks < 2 or self._deadline.seconds_left <= 0:
            return
        if not self._is_patient:
            self._due = self._patience()
        further = await self._think(further_looks)
        while further.pauses and further.seconds < self._deadline.seconds_left:
            for pause in further.pauses:
                left = further.seconds if further.reason else pause
                if not targets or not await self._wait(pause, left=left, reason=further.reason):
                    return
                targets = await self._look(targets)
            if not further.reason:
                return
            further = await self._think(further_looks)

    def _patience(self) -> TimeBudget:
        """What there is of time where nothing else decides: later than the verdict was due, if need be."""
        self._is_patient = True
        return self._due.extended(self._question.patience_seconds)

    async def _look_deeper(self) -> None:
        """Step 4."""
        wanted: Iterable[Process] = self._asking.processes if self._question.native is NativePolicy.ALL else ()
        if self._question.native is NativePolicy.SUSPECTS:
            wanted = await self._think(pids_to_look_deeper)
        await self._look_natively(wanted)

    async def _look_natively(self, wanted: Iterable[Process]) -> None:
        step = Step(stage=Stage.LOOKING_DEEPER)
        await self._asking.look_again(wanted, self._question.native.asked, self._deadline, step, what="native stacks")

    async def _look_closer(self, looks: NextLooks) -> None:
        """After a survey: look at those whole that the verdict is about, and at some of them deeper, as in step 4."""
        asking, native = self._asking, self._question.native
        suspects = looks.native if native is NativePolicy.SUSPECTS else ()
        step = Step(stage=Stage.LOOKING_CLOSER)
        stacks = {"stacks": self._question.stacks}
        await asking.look_again(looks.closer, stacks, self._deadline, step, what="a closer look", ras=True)
        await self._look_natively(asking.processes if native is NativePolicy.ALL else suspects)

    async def _wait(self, seconds: float, *, left: float = 0.0, reason: str = "") -> bool:
        """Step 3: pause between two looks, of `left` seconds in all; False where there is no time for another one."""
        if seconds + self._due.thought_seconds >= self._deadline.seconds_left or not self._asking.answers:
            return False
        await tell(self._progress, Step(stage=Stage.WAITING, seconds=max(seconds, left), reason=reason))
        await asyncio.sleep(seconds)
        return True

    def _pause(self) -> float:
        """Return what is left of the pause between two looks, part of which went by in looking and in thought."""
        interval, now = self._question.interval_seconds, time.monotonic()
        from_begin, from_end = self._looked_at + interval, self._looked_until + _LEAST_PAUSE * interval
        return max(0.0, from_begin - now, from_end - now)
