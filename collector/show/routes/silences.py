"""Silences, as Alertmanager's API v2 shapes them: while one holds, incidents that match are not told to anybody."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import Field

from collector.detect.silences import parse_pattern
from collector.show.routes.common import ServiceDependency, json_answer
from shared.answer.incidents import NewSilence, Silence
from shared.server.problem_handlers import problems
from shared.value import Value

router = APIRouter(prefix="/v1/silences", tags=["silences"], responses=problems(HTTPStatus.SERVICE_UNAVAILABLE))

SilenceId = Annotated[str, Path(description="As the list of silences gives it.", max_length=64)]


class SilenceList(Value):
    """All silences that are kept; expired ones for a month."""

    silences: tuple[Silence, ...]


class SilenceKept(Value):
    """The silence is kept."""

    silenceID: str = Field(description="Its id.")


@router.get("", response_model=SilenceList, summary="List silences")
async def list_silences(service: ServiceDependency) -> Response:
    """Return the silences, those first that end last."""
    return json_answer(SilenceList(silences=await service.async_store.ask(service.store.silences.list)))


@router.post(
    "",
    response_model=SilenceKept,
    summary="Silence incidents for a while",
    responses=problems(HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND),
)
async def put_silence(wanted: NewSilence, service: ServiceDependency) -> Response:
    """Keep a silence, or replace the one of its `id`.

    Matchers compare labels of incidents: `alertname`, `job`, `user`, `kind`, `cause`, `certainty`, `host`, `rank`,
    `group` and `key`. Incidents are still opened and listed, with the silences that hold them back in `silenced_by`.
    """
    for matcher in wanted.matchers:
        if matcher.isRegex:
            parse_pattern(matcher.value)
    kept = await service.async_store.note(service.store.silences.put, wanted)
    return json_answer(SilenceKept(silenceID=kept.id))


@router.get("/{id}", response_model=Silence, summary="Fetch one silence", responses=problems(HTTPStatus.NOT_FOUND))
async def get_silence(id: SilenceId, service: ServiceDependency) -> Response:
    """Return one silence."""
    return json_answer(await service.async_store.ask(service.store.silences.get, id))


@router.delete("/{id}", response_model=Silence, summary="End a silence", responses=problems(HTTPStatus.NOT_FOUND))
async def expire_silence(id: SilenceId, service: ServiceDependency) -> Response:
    """End a silence now, and return it; one that has expired stays as it is."""
    await service.async_store.note(service.store.silences.expire, id)
    return json_answer(await service.async_store.ask(service.store.silences.get, id))
