"""Ask all agents about one job: steps 1 to 4 of a sweep (see `sweep.py`)."""

import asyncio
import inspect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.diagnose import pauses_before_further_looks, pids_to_look_deeper
from collector.diagnose.expected import Expected, Unanswered
from collector.fanout import Answered, Deadline, Fanout, Request, Round, Silent, T
from collector.hostlists import AgentAddress
from collector.job_nodes import NodesOf, of_the_job
from collector.jobs import choose_job, concerns, neighbours_of, ranks_of
from collector.question import NativePolicy, Progress, Question, Stage, Step
from shared.errors import InvalidSettings
from shared.missing import Missing, Reason
from shared.snapshot import NodeSnapshot, RankList

FIND_SECONDS = 5.0
"""For the lists of ranks: cheap to make, so an agent that needs longer is in trouble."""

_AGENT_SECONDS = (0.5, 10.0)
"""The shortest look that agents agree to, and the longest that they are asked for."""

_WORTH_ANOTHER_TRY = frozenset({Reason.UNREACHABLE, Reason.UNREADABLE})
"""Failures that may have been of the moment, and cost no waiting."""


@dataclass(frozen=True)
class Found:
    """Who is where: the agents' lists of ranks by the agents' URLs, and the agents that gave none."""

    lists: Mapping[str, RankList]
    silent: tuple[Silent, ...]


@dataclass(frozen=True)
class Gathered:
    """What the agents said about one job, not judged."""

    snapshots: tuple[NodeSnapshot, ...]
    expected: Expected
    lists: Mapping[str, RankList]


class Gathering:
    """The state of one sweep while it asks: who answered what, and who fell silent."""

    def __init__(
        self,
        question: Question,
        fanout: Fanout,
        progress: Progress | None,
        earlier: Mapping[str, RankList],
        nodes_of: NodesOf | None = None,
    ) -> None:
        self.lists: dict[str, RankList] = dict(earlier)
        self._question = question
        self._job = question.job
        self._fanout = fanout
        self._progress = progress
        self._nodes_of = nodes_of
        self._deadline = Deadline.within(question.deadline_seconds)
        self._answers: list[Answered[NodeSnapshot]] = []
        self._silent: dict[str, Silent] = {}
        self._unreadable: list[Missing] = []

    async def gather(self, agents: Sequence[AgentAddress]) -> tuple[tuple[NodeSnapshot, ...], Expected]:
        """Take steps 1 to 4 and return what `diagnose` needs."""
        if not agents:
            raise InvalidSettings("no agents are known", advice="name them, e.g. --agents 'node[01-16]'")
        budget = min(FIND_SECONDS, self._question.deadline_seconds / 4)
        found = await self.find(agents, self._deadline.earlier(budget))
        self._job = choose_job(self._question.job, found.lists.values(), some_silent=bool(found.silent))
        targets = self._targets(agents, found)
        for look in range(1, self._question.looks + 1):
            if look > 1 and not await self._wait(self._question.interval_seconds):
                break
            targets = await self._look(targets, look)
        await self._look_deeper()
        await self._look_further(targets)
        return self._snapshots, self._expected()

    async def find(self, agents: Sequence[AgentAddress], deadline: Deadline) -> Found:
        """Step 1."""
        requests = [Request(agent, "/v1/ranks", {}) for agent in agents]
        answers = await self._ask(requests, RankList, deadline, Step(stage=Stage.FINDING))
        lists = {answer.address.url: answer.value for answer in answers.answered}
        self.lists.update(lists)
        self._silent.update((silent.address.url, silent) for silent in answers.silent)
        return Found(lists, answers.silent)

    def _targets(self, agents: Sequence[AgentAddress], found: Found) -> list[AgentAddress]:
        """Step 2: the agents worth looking through; of two addresses of one agent, the first."""
        again = {s.address.url for s in found.silent if s.missing.reason in _WORTH_ANOTHER_TRY}
        seen: set[tuple[str | None, int | None, float | None]] = set()
        targets = []
        for agent in agents:
            ranks = found.lists.get(agent.url)
            if ranks is None:
                targets.extend([agent] if agent.url in again else [])
            elif concerns(ranks, self._job):
                processes = {(ranks.host, rank.pid, rank.started_at) for rank in ranks.ranks}
                if not processes or not processes <= seen:
                    targets.append(agent)
                seen |= processes
        return targets

    async def _look(self, targets: Sequence[AgentAddress], look: int) -> list[AgentAddress]:
        """Steps 2 and 3; returns those that answered, for the next look."""
        waits_left = max(0, self._question.looks - look)
        spare = self._deadline.seconds_left - waits_left * self._question.interval_seconds
        deadline = self._deadline.earlier(max(0.0, spare) / (waits_left + 2))
        askers = self._ras_askers(targets) if look <= self._question.looks else ()
        requests = [
            self._request(
                agent, deadline, {"stacks": self._question.stacks, **({"ras": "true"} if agent in askers else {})}
            )
            for agent in targets
        ]
        answers = await self._ask(requests, NodeSnapshot, deadline, Step(stage=Stage.LOOKING, look=look))
        self._answers.extend(answers.answered)
        for answer in answers.answered:
            self._silent.pop(answer.address.url, None)
        self._silent.update((silent.address.url, silent) for silent in answers.silent)
        return [answer.address for answer in answers.answered]

    def _ras_askers(self, targets: Sequence[AgentAddress]) -> tuple[AgentAddress, ...]:
        """NCCL's RAS answers for a whole job, and each question costs all of it a message: two ask, one to spare."""
        lists = {agent: self.lists[agent.url].ranks for agent in targets if agent.url in self.lists}
        ranks = {
            agent: [rank.rank for rank in known if self._job is None or rank.job == self._job]
            for agent, known in lists.items()
        }
        ordered = sorted((agent for agent in ranks if ranks[agent]), key=lambda agent: min(ranks[agent]))
        return tuple(dict.fromkeys((*ordered[:1], *ordered[-1:])))

    async def _look_further(self, targets: Sequence[AgentAddress]) -> None:
        """Step 3 again, where more looks would decide: more time for a doubt, quick samples for a straggler."""
        if self._question.looks < 2:
            return
        pauses = await asyncio.to_thread(pauses_before_further_looks, self._snapshots, self._expected())
        for look, pause in enumerate(pauses, start=self._question.looks + 1):
            if not targets or not await self._wait(pause):
                return
            targets = await self._look(targets, look)

    async def _wait(self, seconds: float) -> bool:
        """Step 3: pause between two looks; False where there is no time for another one."""
        if seconds >= self._deadline.seconds_left or not self._answers:
            return False
        await tell(self._progress, Step(stage=Stage.WAITING, seconds=seconds))
        await asyncio.sleep(seconds)
        return True

    async def _look_deeper(self) -> None:
        """Step 4. What fails here is told as unreadable: the node did answer."""
        deadline = self._deadline
        requests = [
            self._request(address, deadline, {"stacks": "native", "pid": sorted(pids)})
            for address, pids in (await self._deeper()).items()
        ]
        if not requests or deadline.seconds_left <= 0:
            return
        answers = await self._ask(requests, NodeSnapshot, deadline, Step(stage=Stage.LOOKING_DEEPER))
        self._answers.extend(answers.answered)
        for silent in answers.silent:
            detail = f"native stacks: {silent.missing.detail}"
            self._unreadable.append(silent.missing.model_copy(update={"detail": detail}))

    async def _deeper(self) -> dict[AgentAddress, set[int]]:
        if self._question.native is NativePolicy.NEVER:
            return {}
        homes = {
            (rank.identity.host or answer.value.host, rank.identity.pid): answer.address
            for answer in self._answers
            for rank in answer.value.ranks
            if rank.identity.pid is not None and (self._job is None or rank.identity.job == self._job)
        }
        wanted: Sequence[tuple[str | None, int | None]] = tuple(homes)
        if self._question.native is NativePolicy.SUSPECTS:
            wanted = await asyncio.to_thread(pids_to_look_deeper, self._snapshots, self._expected())
        by_address: dict[AgentAddress, set[int]] = defaultdict(set)
        for host, pid in wanted:
            if pid is not None and (host, pid) in homes:
                by_address[homes[host, pid]].add(pid)
        return by_address

    @property
    def _snapshots(self) -> tuple[NodeSnapshot, ...]:
        return tuple(answer.value for answer in self._answers)

    def _expected(self) -> Expected:
        return Expected(
            job=self._job,
            neighbours=neighbours_of(self._job, self.lists.values()),
            unanswered=self._all_unanswered(),
            unreadable=tuple(self._unreadable),
        )

    def _all_unanswered(self) -> tuple[Unanswered, ...]:
        """Tell of the nodes that gave nothing, without those that are known to be no concern of the job."""
        nodes = None if self._nodes_of is None else self._nodes_of(self._job)
        told = tuple(self._unanswered(silent) for silent in self._silent.values())
        return told if nodes is None else of_the_job(told, nodes)

    def _unanswered(self, silent: Silent) -> Unanswered:
        known = self.lists.get(silent.address.url)
        if known is None:
            return silent.unanswered()
        return silent.unanswered(host=known.host, ranks=ranks_of(known, self._job))

    def _request(self, agent: AgentAddress, deadline: Deadline, more: Mapping[str, str | Sequence[int]]) -> Request:
        # The agent gets less time than we wait, so that its partial answer arrives rather than our time-out.
        shortest, longest = _AGENT_SECONDS
        seconds = max(shortest, min(longest, 0.8 * deadline.seconds_left))
        job = {} if self._job is None else {"job": self._job}
        return Request(
            agent, "/v1/snapshot", {**job, "window": self._question.window, "timeout": f"{seconds:.2f}", **more}
        )

    async def _ask(self, requests: Sequence[Request], answer: type[T], deadline: Deadline, step: Step) -> Round[T]:
        step = step.model_copy(update={"asked": len(requests)})
        await tell(self._progress, step)

        async def on_progress(finished: int) -> None:
            await tell(self._progress, step.model_copy(update={"finished": finished}))

        return await self._fanout.ask(requests, answer, deadline=deadline, on_progress=on_progress)


async def tell(progress: Progress | None, step: Step) -> None:
    """Tell the one who waits how far this has come."""
    if progress is not None:
        told = progress(step)
        if inspect.isawaitable(told):
            await told
