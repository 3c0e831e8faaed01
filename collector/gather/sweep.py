"""One question, asked of all agents and answered with a verdict.

1. Find: ask every agent which ranks are on its node, and choose the job.
2. Look at the nodes that have ranks of it, or cannot say.
3. Wait, and look again at those that answered: what moved is not hung.
4. Look deeper, with native stacks, at the few ranks that the verdict asks for.
5. Judge.

An agent that fails at any step costs its own part only. All of it ends by one deadline. The same code asks over
HTTP and in process: the client's transport makes the difference.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import httpx

from collector.align.expected import Unanswered
from collector.concurrency.threads import run_in_thread
from collector.gather.asked import AgentQueries, RankLists, tell
from collector.gather.clock_offsets import clocks_apart
from collector.gather.fanout.fanout import Fanout
from collector.gather.job_nodes import NodesOf
from collector.gather.jobs import JobSummary, summarise_jobs, unread_by
from collector.gather.judge_and_stamp import judge
from collector.gather.plan import FIND_SECONDS, Gathered, SweepPlan
from collector.gather.swept import Sweep
from collector.gather.watched_agents import NOBODY_WATCHES, WatchedAgents
from collector.hostlists import AgentAddress
from collector.question import Progress, Question, Stage, Step
from shared.answer.diagnosis import NextStep
from shared.shell_commands import listed
from shared.wire.snapshot import RankList


@dataclass(frozen=True)
class JobList:
    """The jobs that the agents know, and the agents that did not answer."""

    jobs: tuple[JobSummary, ...]
    unanswered: tuple[Unanswered, ...]
    unread: tuple[str, ...]


async def sweep(
    question: Question,
    agents: Sequence[AgentAddress],
    client: httpx.AsyncClient | Fanout,
    *,
    progress: Progress | None = None,
    earlier: Mapping[str, RankList] | None = None,
    nodes_of: NodesOf | None = None,
    watched: WatchedAgents = NOBODY_WATCHES,
) -> Sweep:
    """Ask `agents` and judge what they say.

    `earlier` holds lists of ranks from before, by URL: they show which ranks are lost with a silent node.
    `nodes_of` knows on which nodes a job runs: other silent nodes are not reported. `watched` is what agents have told
    unasked.
    Raises NotFound where every agent answered and none knows the job, InvalidInput where the job must be named,
    InvalidSettings where there are no agents.
    """
    began = time.monotonic()
    gathered = await gather(
        question, agents, client, progress=progress, earlier=earlier, nodes_of=nodes_of, watched=watched
    )
    await tell(progress, Step(stage=Stage.JUDGING))
    diagnosis = await run_in_thread(judge, gathered.snapshots, gathered.expected)
    diagnosis = diagnosis.model_copy(
        update={
            "took_seconds": round(time.monotonic() - began, 3),
            "next_steps": (*_other_jobs(gathered), *diagnosis.next_steps),
            "conflicts": (*diagnosis.conflicts, *clocks_apart(gathered.clocks)),
        }
    )
    return Sweep(gathered.snapshots, gathered.expected, diagnosis, gathered.packed, gathered.lists)


async def gather(
    question: Question,
    agents: Sequence[AgentAddress],
    client: httpx.AsyncClient | Fanout,
    *,
    progress: Progress | None = None,
    earlier: Mapping[str, RankList] | None = None,
    nodes_of: NodesOf | None = None,
    watched: WatchedAgents = NOBODY_WATCHES,
) -> Gathered:
    """Take steps 1 to 4 of a sweep: look, and leave the judging to others. Raises as `sweep` does."""
    doubtful = watched.doubtful(agents)
    asking = AgentQueries(question, _as_fanout(client), progress, earlier or {}, nodes_of, doubtful)
    asking.learnt = {"usual_pause_seconds": watched.usual_pause, "faulty_hosts": watched.faulty_hosts}
    gathered = await SweepPlan(question, asking, progress, watched).gather(agents)
    hung = watched.found_hung
    if hung is None or hung.user != gathered.expected.user:  # of whichever user's job has that name
        return gathered
    return replace(gathered, expected=gathered.expected.model_copy(update={"found_hung": hung}))


async def find(
    agents: Sequence[AgentAddress],
    client: httpx.AsyncClient | Fanout,
    *,
    deadline_seconds: float = FIND_SECONDS,
    progress: Progress | None = None,
) -> RankLists:
    """Ask every agent which ranks are on its node."""
    asking = AgentQueries(Question(deadline_seconds=deadline_seconds), _as_fanout(client), progress, {})
    return await asking.list_ranks(agents, asking.deadline)


async def list_jobs(
    agents: Sequence[AgentAddress], client: httpx.AsyncClient | Fanout, *, deadline_seconds: float = FIND_SECONDS
) -> JobList:
    """Return the jobs that the agents know."""
    found = await find(agents, client, deadline_seconds=deadline_seconds)
    return JobList(
        jobs=summarise_jobs(found.lists.values()),
        unanswered=tuple(silent.unanswered() for silent in found.silent),
        unread=unread_by(found.lists.values()),
    )


def _other_jobs(gathered: Gathered) -> tuple[NextStep, ...]:
    """If nothing of the job was seen, its name may be wrong: list the jobs that exist."""
    if any(snapshot.ranks or snapshot.exited for snapshot in gathered.snapshots):
        return ()
    names = [job.name for job in summarise_jobs(gathered.lists.values()) if job.name != gathered.expected.job]
    return (NextStep(text=f"check the job's name; the agents that answered know: {listed(names)}"),) if names else ()


def _as_fanout(client: httpx.AsyncClient | Fanout) -> Fanout:
    return client if isinstance(client, Fanout) else Fanout(client)
