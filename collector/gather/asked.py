"""What one sweep requested and received: the answers, and the agents that fell silent."""

import inspect
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collector.align.expected import Expected, Unanswered
from collector.align.job_owner import apart
from collector.gather.answers import NodeLook, read_look
from collector.gather.clock_offsets import Clock, clock_of
from collector.gather.failures import NoAnswer
from collector.gather.fanout.fanout import Fanout
from collector.gather.fanout.values import Answered, Request, RequestDeadline, RoundOutcome, Silent, T
from collector.gather.job_nodes import NodesOf, of_the_job
from collector.gather.jobs import choose_job, neighbours_of, nodes_without_ranks, ranks_of
from collector.gather.namesakes import lists_apart, user_of
from collector.gather.watched_agents import DOUBTFUL_SECONDS
from collector.gather.wrong_addresses import not_reached
from collector.hostlists import AgentAddress
from collector.looks.next_looks import Process
from collector.question import Progress, Question, Stage, Step
from shared.json_bounds import model_cost
from shared.missing import Missing, Reason
from shared.rank_sets import fold
from shared.wire.job_names import is_of, plain_name
from shared.wire.snapshot import NodeSnapshot, RankList, lists_late
from shared.wire.survey_read import SurveyReader

_AGENT_SECONDS = (0.5, 10.0)
"""The shortest look that agents agree to, and the longest that they are asked for."""

_MODEST_MEMORY = 64 * 1024 * 1024
"""For one look: eight ranks with their stacks and windows of records take a tenth of it."""
_SMALL_BODY_BYTES = 64 * 1024
"""What no answer of this length can make too much of: a thousand bytes of memory for each of its own."""
_MOST_MEMORY = 2 * 1024 * 1024 * 1024
"""For all looks of one sweep that are not modest; the collector's own MemoryMax is 4 GiB."""

Parameters = Mapping[str, str | Sequence[int]]
_RAS: Parameters = {"ras": "true"}


@dataclass(frozen=True)
class RankLists:
    """Who is where: the agents' lists of ranks by the agents' URLs, and the agents that gave none."""

    lists: Mapping[str, RankList]
    silent: tuple[Silent, ...]


class AgentQueries:
    """Asks agents about one job, and keeps what they say."""

    def __init__(
        self,
        question: Question,
        fanout: Fanout,
        progress: Progress | None,
        earlier: Mapping[str, RankList],
        nodes_of: NodesOf | None = None,
        doubtful: Collection[str] = (),
    ) -> None:
        """`earlier` holds lists of ranks from before, by URL. `nodes_of` knows on which nodes a job runs.

        `doubtful` are URLs of agents that have fallen silent: nobody waits for them for long.
        """
        self.job = question.job
        self.user: str | None = None
        self.lists: dict[str, RankList] = dict(earlier)
        self.deadline = RequestDeadline.within(question.deadline_seconds)
        self.answers: list[Answered[NodeLook]] = []
        self._question = question
        self._fanout = fanout
        self._progress = progress
        self._nodes_of = nodes_of
        self._doubtful = frozenset(doubtful)
        self.told: frozenset[int] = frozenset()  # not to be looked at, for their agents have told where they stand
        self.learnt: Mapping[str, Any] = {}  # of earlier runs, as `Expected` has it
        self._silent: dict[str, Silent] = {}
        self._answered: set[str] = set()
        self._unreadable: list[Missing] = []
        self._surveys = SurveyReader()
        self._held_memory = 0
        self._known_agents: dict[Process, AgentAddress] = {}

    def choose(self, found: RankLists) -> None:
        """Settle on one user's job. Raises as `choose_job` does.

        What silent agents reported earlier counts: another user's job is not taken for theirs meanwhile. An agent that
        had no time to list the processes of its node is as good as silent.
        """
        some_late = any(lists_late(each.missing) for each in found.lists.values())
        self.job = choose_job(self.job, found.lists.values(), some_silent=bool(found.silent) or some_late)
        before = [self.lists[each.address.url] for each in found.silent if each.address.url in self.lists]
        self.user = user_of(self.job, (*found.lists.values(), *before))

    async def list_ranks(self, agents: Sequence[AgentAddress], deadline: RequestDeadline) -> RankLists:
        """Ask who is where."""
        requests = [
            Request(agent, "/v1/ranks", {}, patience_seconds=self._patience(agent)) for agent in self._ordered(agents)
        ]
        answers = await self._ask(requests, RankList, deadline, Step(stage=Stage.FINDING))
        return self._found([(answer.address, answer.value) for answer in answers.answered], answers.silent)

    async def survey(self, agents: Sequence[AgentAddress], deadline: RequestDeadline, step: Step) -> list[AgentAddress]:
        """Look briefly. An agent that knows no surveys looks at everything. Returns those that answered."""
        requests = [
            self._request(agent, "/v1/survey", deadline, {}, otherwise=self._whole(agent, deadline, {}))
            for agent in self._ordered(agents)
        ]
        return await self._look_at_all(requests, deadline, step)

    async def look(
        self, agents: Sequence[AgentAddress], deadline: RequestDeadline, step: Step, *, ras: bool
    ) -> list[AgentAddress]:
        """Look at everything; with `ras` some ask NCCL RAS, too. Returns those that answered."""
        askers = self._ras_askers(agents) if ras else ()
        stacks: Parameters = {"stacks": self._question.stacks}
        requests = [self._whole(agent, deadline, {**stacks, **_RAS} if agent in askers else stacks) for agent in agents]
        return await self._look_at_all(requests, deadline, step)

    async def look_again(
        self,
        processes: Iterable[Process],
        more: Parameters,
        deadline: RequestDeadline,
        step: Step,
        *,
        what: str,
        ras: bool = False,
    ) -> None:
        """Look at some processes. What fails here is reported as unreadable: the node did answer."""
        by_agent = self._by_agent(processes)
        askers = self._ras_askers(tuple(by_agent)) if ras else ()
        requests = [
            self._whole(agent, deadline, {**more, **(_RAS if agent in askers else {}), "pid": pids})
            for agent, pids in by_agent.items()
        ]
        if not requests or deadline.seconds_left <= 0:
            return
        answers = await self._look(requests, deadline, step)
        self.answers.extend(answers.answered)
        for silent in answers.silent:
            detail = f"{what}: {silent.missing.detail}"
            self._unreadable.append(silent.missing.model_copy(update={"detail": detail}))

    @property
    def snapshots(self) -> tuple[NodeSnapshot, ...]:
        """Every look so far, in the order of its coming, with the job's name on its own ranks alone."""
        return apart((answer.value.snapshot for answer in self.answers), self.job, self.user)

    @property
    def expected(self) -> Expected:
        """What the verdict needs to know besides the looks."""
        return Expected(
            job=self.job,
            user=self.user,
            neighbours=neighbours_of(self.job, lists_apart(self.lists.values(), self.job, self.user)),
            unanswered=self._unanswered(),
            **self.learnt,
            nodes_without_ranks=self._nodes_without_ranks(),
            told=fold(self.told),
            unreadable=tuple(self._unreadable),
        )

    @property
    def processes(self) -> tuple[Process, ...]:
        """All that were seen of the job."""
        return tuple(self._agents_of_processes())

    @property
    def clocks(self) -> tuple[Clock, ...]:
        """How far the nodes' clocks are ahead of ours, one value per answer that shows it."""
        clocks = (clock_of(a.asked_at_ns, a.answered_at_ns, a.value.snapshot) for a in self.answers)
        return tuple(clock for clock in clocks if clock is not None)

    def processes_of(self, ranks: Iterable[int] | None) -> tuple[Process, ...]:
        """Where these ranks are, as far as they were seen; None: all."""
        if ranks is None:
            return self.processes
        wanted = set(ranks)
        return tuple(process for process, rank, _ in self._seen() if rank in wanted)

    def drop_looks(self) -> None:
        """Forget the looks so far, but not where processes are."""
        self._known_agents = self._agents_of_processes()
        self.answers = []

    def begin_anew(self) -> None:
        """Forget the looks so far, and who did not answer."""
        self.drop_looks()
        self.told = frozenset()
        self._silent.clear()
        self._unreadable.clear()

    def surveyed(self) -> RankLists:
        """Who is where, by the surveys so far."""
        answered = [(answer.address, _list_of(answer.value)) for answer in self.answers]
        found = self._found(answered, tuple(self._silent.values()))
        self.answers = [answer for answer in self.answers if answer.address.url in found.lists]
        return found

    def _found(self, answered: Sequence[tuple[AgentAddress, RankList]], silent: tuple[Silent, ...]) -> RankLists:
        astray = not_reached((address, ranks.host) for address, ranks in answered)
        lists = {address.url: ranks for address, ranks in answered if address.url not in astray}
        self.lists.update(lists)
        self._answered |= lists.keys()
        self._silent.update((each.address.url, each) for each in silent)
        self._silent.update(
            (address.url, Silent(address, astray[address.url])) for address, _ in answered if address.url in astray
        )
        return RankLists(lists, silent)

    async def _look_at_all(
        self, requests: Sequence[Request], deadline: RequestDeadline, step: Step
    ) -> list[AgentAddress]:
        """Look at whole nodes: agents that do not answer now are silent. Returns those that answered."""
        answers = await self._look(requests, deadline, step)
        self.answers.extend(answers.answered)
        for answer in answers.answered:
            self._silent.pop(answer.address.url, None)
        self._silent.update((silent.address.url, silent) for silent in answers.silent)
        return [answer.address for answer in answers.answered]

    def _ras_askers(self, agents: Sequence[AgentAddress]) -> tuple[AgentAddress, ...]:
        """NCCL's RAS answers for a whole job, and each question costs all of it a message: two ask, one to spare."""
        lists = {agent: self.lists[agent.url].ranks for agent in agents if agent.url in self.lists}
        ranks = {
            agent: [rank.rank for rank in known if self.job is None or is_of(rank, self.job, self.user)]
            for agent, known in lists.items()
        }
        ordered = sorted((agent for agent in ranks if ranks[agent]), key=lambda agent: min(ranks[agent]))
        return tuple(dict.fromkeys((*ordered[:1], *ordered[-1:])))

    def _by_agent(self, processes: Iterable[Process]) -> Mapping[AgentAddress, list[int]]:
        """Return the agents that have these processes, with their ids."""
        agents = self._agents_of_processes()
        found: dict[AgentAddress, set[int]] = defaultdict(set)
        for host, pid in processes:
            if (host, pid) in agents:
                found[agents[host, pid]].add(pid)
        return {agent: sorted(pids) for agent, pids in found.items()}

    def _agents_of_processes(self) -> dict[Process, AgentAddress]:
        return self._known_agents | {process: agent for process, _, agent in self._seen()}

    def _seen(self) -> Iterator[tuple[Process, int, AgentAddress]]:
        """Each process of the job that was looked at, which rank it is, and whose agent has it; once for each look."""
        for answer in self.answers:
            for identity in (rank.identity for rank in answer.value.snapshot.ranks):
                if identity.pid is not None and (self.job is None or is_of(identity, self.job, self.user)):
                    host = identity.host or answer.value.snapshot.host
                    yield (host, identity.pid), identity.rank, answer.address

    def _unanswered(self) -> tuple[Unanswered, ...]:
        """Return the nodes that gave nothing, without those on which the job is known not to run."""
        nodes = None if self._nodes_of is None else self._nodes_of(self.job and plain_name(self.job))
        unanswered = tuple(self._silence(silent) for silent in self._silent.values())
        return unanswered if nodes is None else of_the_job(unanswered, nodes)

    def _nodes_without_ranks(self) -> int:
        lists = [self.lists[url] for url in self._answered - self._silent.keys()]
        return nodes_without_ranks(lists, self.job, self.user)

    def _silence(self, silent: Silent) -> Unanswered:
        known = self.lists.get(silent.address.url)
        if known is None:
            return silent.unanswered()
        return silent.unanswered(host=known.host, ranks=ranks_of(known, self.job, self.user))

    def _whole(self, agent: AgentAddress, deadline: RequestDeadline, more: Parameters) -> Request:
        return self._request(agent, "/v1/snapshot", deadline, {"window": str(self._question.window), **more})

    def _request(
        self,
        agent: AgentAddress,
        path: str,
        deadline: RequestDeadline,
        more: Parameters,
        *,
        otherwise: Request | None = None,
    ) -> Request:
        # The agent gets less time than we wait, so that its partial answer arrives rather than our time-out.
        shortest, longest = _AGENT_SECONDS
        seconds = max(shortest, min(longest, 0.8 * deadline.seconds_left))
        job = {} if self.job is None else {"job": self.job}
        if self.user is not None:
            job["user"] = self.user
        parameters = {**job, "timeout": f"{seconds:.2f}", **more}
        return Request(agent, path, parameters, otherwise, self._patience(agent))

    def _patience(self, agent: AgentAddress) -> float | None:
        return DOUBTFUL_SECONDS if agent.url in self._doubtful else None

    def _ordered(self, agents: Sequence[AgentAddress]) -> Sequence[AgentAddress]:
        """Ask those first who may not answer: their time passes while the others are asked."""
        return sorted(agents, key=lambda agent: agent.url not in self._doubtful) if self._doubtful else agents

    async def _look(self, requests: Sequence[Request], deadline: RequestDeadline, step: Step) -> RoundOutcome[NodeLook]:
        return await self._ask(requests, NodeLook, deadline, step, read=lambda body, _: self._read(body))

    def _read(self, body: bytes) -> NodeLook:
        """Read a look, unless it is large and what is kept of all others is much already. Raises NoAnswer."""
        cost = model_cost(body) if len(body) > _SMALL_BODY_BYTES else 0
        if cost > _MODEST_MEMORY and self._held_memory + cost > _MOST_MEMORY:
            too_large = (
                f"the answer would take up to {cost} bytes of memory, and the others have taken {self._held_memory}"
            )
            raise NoAnswer(Reason.REFUSED, f"{too_large}; large answers get {_MOST_MEMORY} in all")
        look = read_look(body, self._surveys)
        self._held_memory += cost if cost > _MODEST_MEMORY else 0
        return look

    async def _ask(
        self,
        requests: Sequence[Request],
        answer: type[T],
        deadline: RequestDeadline,
        step: Step,
        *,
        read: Callable[[bytes, type[T]], T] | None = None,
    ) -> RoundOutcome[T]:
        step = step.model_copy(update={"asked": len(requests)})
        await tell(self._progress, step)

        async def on_progress(finished: int) -> None:
            await tell(self._progress, step.model_copy(update={"finished": finished}))

        return await self._fanout.ask(requests, answer, deadline=deadline, on_progress=on_progress, read=read)


async def tell(progress: Progress | None, step: Step) -> None:
    """Report progress to the caller."""
    if progress is not None:
        reported = progress(step)
        if inspect.isawaitable(reported):
            await reported


def _list_of(look: NodeLook) -> RankList:
    seen = look.snapshot
    ranks = (*(rank.identity for rank in seen.ranks), *look.others)
    return RankList(host=seen.host or "", ranks=ranks, exited=seen.exited, missing=seen.missing)
