"""Is the service well, and what has it done? For probes and Prometheus."""

import asyncio
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from collector.counters import MEDIA_TYPE
from collector.routes.answers import ServiceDependency, json_answer
from shared import VERSION
from shared.missing import Missing
from shared.value import Value

open_router = APIRouter(tags=["service"])
router = APIRouter(tags=["service"])


class Health(Value):
    """The service answers, and its store can be read."""

    status: Literal["ok"] = "ok"
    version: str = VERSION
    agents: int = Field(description="How many agents are in the inventory; `GET /v1/agents` asks them.")
    trouble: Missing | None = Field(default=None, description="Why the list of agents may be out of date.")


@open_router.get("/healthz", response_model=Health, summary="Is the service up?")
async def healthz(service: ServiceDependency) -> Response:
    """Answer 200 when the collector works. Needs no token."""
    agents = service.inventory.addresses()
    await asyncio.to_thread(service.store.size)
    return json_answer(Health(agents=len(agents), trouble=service.inventory.trouble))


@router.get("/metrics", response_class=Response, summary="Metrics for Prometheus")
async def metrics(service: ServiceDependency) -> Response:
    """Return counters of diagnoses and of agents that did not answer."""
    count, size = await asyncio.to_thread(service.store.size)
    page = service.counters.page(
        agents=len(service.inventory.addresses()), running=len(service.runs), kept=count, kept_bytes=size
    )
    return Response(page, media_type=MEDIA_TYPE)
