"""Who the agents are, and whether they answer."""

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from collector.fanout import Silent
from collector.hostlists import AgentAddress
from collector.jobs import summarise_jobs
from collector.routes.answers import ServiceDependency, json_answer
from shared.missing import Missing
from shared.snapshot import RankList
from shared.value import Value

router = APIRouter(prefix="/v1/agents", tags=["agents"])


class AgentState(Value):
    """One agent, asked just now."""

    host: str = Field(description="The node as the inventory names it.", examples=["node07"])
    url: str = Field(examples=["http://node07:8471"])
    answers: bool
    calls_itself: str | None = Field(default=None, description="The node's own name, where it answers.")
    ranks: int = Field(default=0, description="How many ranks run there.")
    jobs: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = Field(
        default=(), description="Why it does not answer, or what it cannot see on its node."
    )


class AgentStates(Value):
    """All agents of the inventory, in its order."""

    agents: tuple[AgentState, ...]
    trouble: Missing | None = Field(default=None, description="Why the list itself may be out of date.")


@router.get("", response_model=AgentStates, summary="List the agents")
async def list_agents(service: ServiceDependency) -> Response:
    """Ask every agent for its ranks, within five seconds, and tell which answered."""
    found = await service.find()
    silent = {each.address.url: each for each in found.silent}
    states = [
        _state(address, found.lists.get(address.url), silent.get(address.url))
        for address in service.inventory.addresses()
    ]
    return json_answer(AgentStates(agents=tuple(states), trouble=service.inventory.trouble))


def _state(address: AgentAddress, ranks: RankList | None, silent: Silent | None) -> AgentState:
    if ranks is None:
        missing = () if silent is None else (silent.missing,)
        return AgentState(host=address.host, url=address.url, answers=False, missing=missing)
    return AgentState(
        host=address.host,
        url=address.url,
        answers=True,
        calls_itself=ranks.host,
        ranks=len(ranks.ranks),
        jobs=tuple(job.name for job in summarise_jobs([ranks])),
        missing=ranks.missing,
    )
