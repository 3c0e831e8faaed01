"""Is the service well, and what has it done? For probes and Prometheus."""

from typing import Literal

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from collector.keep.database import StoreTrouble
from collector.metrics import MEDIA_TYPE
from collector.show.routes.common import ServiceDependency, json_answer
from shared import VERSION
from shared.missing import Missing
from shared.value import Value

open_router = APIRouter(tags=["service"])
router = APIRouter(tags=["service"])


class ServiceHealth(Value):
    """The service answers. `degraded`: it makes diagnoses, and cannot keep them."""

    status: Literal["ok", "degraded"] = "ok"
    version: str = VERSION
    agents: int = Field(description="How many agents are in the inventory; `GET /v1/agents` asks them.")
    trouble: Missing | None = Field(default=None, description="Why the list of agents may be out of date.")
    troubles: tuple[Missing, ...] = Field(default=(), description="All that is wrong with the sources of agents.")
    store: Missing | None = Field(default=None, description="Why diagnoses are not kept.")


@open_router.get("/healthz", response_model=ServiceHealth, summary="Is the service up?")
async def healthz(service: ServiceDependency) -> Response:
    """Answer 200 when the collector works, also while its store does not. Needs no token."""
    agents = service.inventory.addresses()
    store = await service.async_store.trouble()
    status: Literal["ok", "degraded"] = "ok" if store is None else "degraded"
    troubles = service.inventory.troubles
    trouble = next(iter(troubles), None)
    return json_answer(
        ServiceHealth(status=status, agents=len(agents), trouble=trouble, troubles=troubles, store=store)
    )


@router.get(
    "/metrics",
    response_class=Response,
    summary="Metrics for Prometheus",
    responses={200: {"content": {"text/plain": {}}}},
)
async def metrics(service: ServiceDependency) -> Response:
    """Return counters of diagnoses and of agents that did not answer."""
    try:
        kept = await service.async_store.ask(service.store.size)
    except StoreTrouble:
        kept = None
    page = service.counters.page(agents=len(service.inventory.addresses()), running=len(service.runs), kept=kept)
    return Response(page, media_type=MEDIA_TYPE)
