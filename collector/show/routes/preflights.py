"""What preflights found, as whoever ran them has sent it. The collector runs none: a preflight runs code on nodes."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from pydantic import Field

from collector.show.routes.common import Before, ServiceDependency, cut_at, json_answer
from shared.answer.preflight import KeptPreflight, NodeState, PreflightResult
from shared.server.problem_handlers import problems
from shared.value import Value

router = APIRouter(prefix="/v1/preflights", tags=["preflights"], responses=problems(HTTPStatus.SERVICE_UNAVAILABLE))

PreflightId = Annotated[str, Path(description="As the list of preflights gives it.", max_length=64)]


class NodeRecord(Value):
    """What the preflights on one page found one node to be."""

    host: str
    preflights: int = Field(description="In so many of them it took part.")
    states: dict[NodeState, int] = Field(description="How often it was found to be what.")


class PreflightList(Value):
    """One page of preflights, newest first."""

    preflights: tuple[KeptPreflight, ...]
    node: NodeRecord | None = Field(default=None, description="Of the node that was asked for.")
    next: str | None = Field(default=None, description="Pass it as `before` for the next page; null on the last.")


@router.post(
    "",
    response_model=KeptPreflight,
    summary="Keep what a preflight found",
    responses=problems(HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
)
async def put_preflight(found: PreflightResult, service: ServiceDependency) -> Response:
    """Keep the result of a preflight, which `unhang preflight --collector URL` sends when it ends.

    It is kept as it is sent and decides nothing; a result that is sent again is kept once, and the answer is the one
    that is kept. The newest 500 are kept, and at most 64 MiB.
    """
    kept = await service.async_store.note(service.store.preflights.save, found)
    return json_answer(kept)


@router.get("", response_model=PreflightList, summary="List preflights, newest first")
async def list_preflights(
    service: ServiceDependency,
    host: Annotated[str | None, Query(description="Only those in which this node took part.", max_length=300)] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="At most so many.")] = 20,
    before: Before = None,
) -> Response:
    """Return what is kept, a page at a time; of one node, also how often it was found to be what."""
    rows = await service.async_store.ask(service.store.preflights.list, host=host, limit=limit + 1, before=before)
    shown, more = cut_at(rows, limit)
    record = None if host is None else record_of(host, shown)
    return json_answer(PreflightList(preflights=shown, node=record, next=more))


@router.get(
    "/{id}",
    response_model=KeptPreflight,
    summary="Fetch one preflight",
    responses=problems(HTTPStatus.NOT_FOUND),
)
async def get_preflight(id: PreflightId, service: ServiceDependency) -> Response:
    """Return what one preflight found."""
    return json_answer(await service.async_store.ask(service.store.preflights.get, id))


def record_of(host: str, shown: tuple[KeptPreflight, ...]) -> NodeRecord:
    """Return how often preflights, newest first, found a node to be what."""
    found = [each.state_of(host) for each in shown]
    return NodeRecord(
        host=host, preflights=len(shown), states={state: found.count(state) for state in NodeState if state in found}
    )
