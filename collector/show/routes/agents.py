"""Who the agents are, whether they answer, and how one makes itself known."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import Field

from collector.agents.merging import KnownAgent
from collector.agents.registration.registered import Registrant
from collector.agents.registration.registrants import parse_registrant, refuse_own_places, sender_of
from collector.gather.fanout.values import Silent
from collector.gather.jobs import summarise_jobs
from collector.show.routes.common import ServiceDependency, json_answer
from shared.errors import NotPermitted
from shared.missing import Missing, Reason
from shared.server.connection_limits import client_of
from shared.server.gate import who_asks
from shared.server.problem_handlers import problems
from shared.value import Value
from shared.wire.registration import Lease, Registration
from shared.wire.snapshot import RankList

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
    learnt_from: tuple[str, ...] = Field(
        default=(), description="Who knows it: `agents`, `agents_file`, `registered`, `slurm`, `dns NAME` …"
    )
    labels: dict[str, str] = Field(default_factory=dict, description="What its source says of it, e.g. its pod.")
    lost_at: float | None = Field(
        default=None, description="When it last registered, where it should have done so again; Unix seconds."
    )


class AgentStates(Value):
    """All agents of the inventory, in its order."""

    agents: tuple[AgentState, ...]
    trouble: Missing | None = Field(default=None, description="Why the list itself may be out of date.")
    troubles: tuple[Missing, ...] = Field(
        default=(), description="All that is wrong with the sources of agents: failures, and what they disagree on."
    )


@router.get("", response_model=AgentStates, summary="List the agents")
async def list_agents(service: ServiceDependency) -> Response:
    """Ask every agent for its ranks, within five seconds, and show which answered."""
    found = await service.find()
    silent = {each.address.url: each for each in found.silent}
    states = [
        _state(agent, found.lists.get(agent.address.url), silent.get(agent.address.url))
        for agent in service.inventory.agents()
    ]
    troubles = service.inventory.troubles
    return json_answer(AgentStates(agents=tuple(states), trouble=next(iter(troubles), None), troubles=troubles))


@router.put(
    "/{host}",
    response_model=Lease,
    summary="An agent makes itself known",
    responses=problems(HTTPStatus.BAD_REQUEST),
)
async def register(
    host: Annotated[str, Path(max_length=253, description="The node's name.", examples=["node07"])],
    body: Registration,
    request: Request,
    service: ServiceDependency,
) -> Response:
    """Register this agent for `lease_seconds`. One that does not register again is lost, and its node is reported."""
    await service.may_register(request)
    leases = service.inventory.leases
    if leases is None:
        raise NotPermitted(
            "this collector takes no registrations", advice="set registration_seconds, or name the agent by other means"
        )
    if body.digest is not None:
        body.digest.check()
    sender = sender_of(request)
    address = parse_registrant(host, body, sender=sender)
    if not leases.holds(address):  # that was looked into when it came first
        await refuse_own_places(address, sender=sender)
    asks = who_asks(request)
    by = Registrant(client_of(sender), asks.get("token", ""))
    answer = json_answer(service.renew(address, body.digest, by=by))
    answer.headers["Connection"] = "close"  # the next is plain, and so is its connection, which may be kept
    return answer


def _state(agent: KnownAgent, ranks: RankList | None, silent: Silent | None) -> AgentState:
    known = AgentState(
        host=agent.address.host,
        url=agent.address.url,
        answers=ranks is not None,
        learnt_from=agent.learnt_from,
        labels=agent.labels,
        lost_at=agent.lost_at,
    )
    if ranks is None:
        return known.model_copy(update={"missing": (_NOT_ASKED if silent is None else silent.missing,)})
    jobs = tuple(job.name for job in summarise_jobs([ranks]))
    seen = {"calls_itself": ranks.host, "ranks": len(ranks.ranks), "jobs": jobs, "missing": ranks.missing}
    return known.model_copy(update=seen)


_NOT_ASKED = Missing(
    source="registered", reason=Reason.GONE, detail="it was not asked: it is lost for long, or has just become known"
)
