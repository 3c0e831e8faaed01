"""Messages about incidents to receivers: which were sent, which wait, and which were given up."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field

from collector.show.routes.common import Limit, ServiceDependency, json_answer
from shared.answer.deliveries import Delivery, DeliveryState
from shared.server.problem_handlers import problems
from shared.value import Value

router = APIRouter(prefix="/v1/deliveries", tags=["incidents"], responses=problems(HTTPStatus.SERVICE_UNAVAILABLE))


class DeliveryList(Value):
    """Messages to receivers, newest first."""

    deliveries: tuple[Delivery, ...]
    receivers: tuple[str, ...] = Field(description="Those in this collector's notify file.")


@router.get("", response_model=DeliveryList, summary="List messages to receivers, newest first")
async def list_deliveries(
    service: ServiceDependency,
    state: Annotated[
        list[DeliveryState] | None, Query(max_length=8, description="Only in this state; may be repeated.")
    ] = None,
    receiver: Annotated[str | None, Query(description="Only to this receiver.", max_length=64)] = None,
    incident: Annotated[str | None, Query(description="Only about this incident.", max_length=64)] = None,
    limit: Limit = 50,
) -> Response:
    """Return who was told of which change of an incident, and why not where that failed."""
    found = await service.async_store.ask(
        service.store.deliveries.list, states=state or (), receiver=receiver, incident=incident, limit=limit
    )
    names = () if service.notifier is None else service.notifier.names
    return json_answer(DeliveryList(deliveries=found, receivers=names))
