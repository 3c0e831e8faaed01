"""One closer look at one rank of a job: finds the agent that has it, and asks that one alone."""

from collections.abc import Sequence

import httpx

from collector.gather.asked import RankLists
from collector.gather.fanout.fanout import Fanout
from collector.gather.fanout.values import Request, RequestDeadline
from collector.gather.jobs import choose_job
from collector.gather.namesakes import lists_apart, user_of
from collector.gather.sweep import find
from collector.hostlists import AgentAddress
from shared.errors import NotFound, Unreachable, quoted
from shared.wire.debug_output import DeepLook, How
from shared.wire.snapshot import Identity

_ANSWER_SECONDS = 60.0


async def look_closely(
    job: str | None,
    rank: int,
    how: How,
    agents: Sequence[AgentAddress],
    client: httpx.AsyncClient,
    *,
    seconds: float,
    child: int | None = None,
) -> DeepLook:
    """Return a closer look at `rank` of `job`, or at its child process of that id.

    Raises NotFound, InvalidInput or Unreachable.
    """
    found = await find(agents, client)
    chosen = choose_job(job, found.lists.values(), some_silent=bool(found.silent))
    lists = zip(
        found.lists, lists_apart(found.lists.values(), chosen, user_of(chosen, found.lists.values())), strict=True
    )
    url, identity = _home(chosen, rank, RankLists(dict(lists), found.silent))
    address = next(agent for agent in agents if agent.url == url)
    parameters = {"how": how.value, "seconds": f"{seconds:.2f}", **({} if child is None else {"child": str(child)})}
    request = Request(address, f"/v1/ranks/{identity.pid}/deep", parameters)
    fanout = Fanout(client, node_seconds=_ANSWER_SECONDS)
    answers = await fanout.ask([request], DeepLook, deadline=RequestDeadline.within(_ANSWER_SECONDS))
    for answer in answers.answered:
        return answer.value.model_copy(update={"rank": rank})
    missing = answers.silent[0].missing
    raise Unreachable(f"the agent on {address.host} gave no closer look: {missing.detail}", advice="run it on the node")


def _home(job: str | None, rank: int, found: RankLists) -> tuple[str, Identity]:
    """Return the agent that has the rank, of the newest attempt, and its newest process.

    Raises NotFound where all agents have answered, Unreachable where one that did not may have it.
    """
    here = [
        (identity.attempt, identity.started_at or 0.0, url, identity)
        for url, ranks in found.lists.items()
        for identity in ranks.ranks
        if identity.rank == rank and identity.pid is not None and (job is None or identity.job == job)
    ]
    if not here:
        sought = f"rank {rank}" + ("" if job is None else f" of the job {quoted(job)}")
        if found.silent:
            first = found.silent[0]
            silent = f"{first.address.host} ({first.missing.detail})"
            more = f" and {len(found.silent) - 1} more" if len(found.silent) > 1 else ""
            raise Unreachable(f"no agent that answered sees {sought}", advice=f"{silent}{more} did not answer")
        raise NotFound(f"no agent sees {sought}", advice="`unhang jobs` lists what is running")
    *_, url, identity = max(here, key=lambda each: each[:3])
    return url, identity
