"""Silences, as Alertmanager's API v2 shapes them: while one holds, incidents that match are not told to anybody."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import Field

from collector.detect.silences import parse_pattern
from collector.keep.watched.silences import no_such_silence
from collector.service import Service
from collector.show.routes.common import ServiceDependency, json_answer
from collector.show.routes.rights import Sight, SightDependency
from shared.answer.incidents import LABELS, NewSilence, Silence
from shared.errors import InvalidInput, NotPermitted, quoted
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
async def list_silences(service: ServiceDependency, sight: SightDependency) -> Response:
    """Return the silences, those first that end last."""
    kept = await service.async_store.ask(service.store.silences.list)
    return json_answer(SilenceList(silences=tuple(each for each in kept if sight.sees_silence(each))))


@router.post(
    "",
    response_model=SilenceKept,
    summary="Silence incidents for a while",
    responses=problems(HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND),
)
async def put_silence(wanted: NewSilence, service: ServiceDependency, sight: SightDependency) -> Response:
    """Keep a silence, or replace the one of its `id`.

    Matchers compare labels of incidents: `alertname`, `job`, `user`, `kind`, `cause`, `certainty`, `host`, `rank`,
    `group` and `key`. Incidents are still opened and listed, with the silences that hold them back in `silenced_by`.
    """
    for matcher in wanted.matchers:
        if matcher.name not in LABELS:  # a typo would match nothing, or with `isEqual: false` everything
            raise InvalidInput(
                f"incidents have no label {quoted(matcher.name)}", advice=f"they have {', '.join(LABELS)}"
            )
        if matcher.isRegex:
            parse_pattern(matcher.value)
    if not sight.sees_silence(wanted):
        raise NotPermitted(
            "this token silences the jobs of its own users alone", advice="add a matcher for one, e.g. user=1001"
        )
    if wanted.id is not None:
        await _seen(wanted.id, service, sight)
    kept = await service.async_store.note(service.store.silences.put, wanted)
    return json_answer(SilenceKept(silenceID=kept.id))


@router.get("/{id}", response_model=Silence, summary="Fetch one silence", responses=problems(HTTPStatus.NOT_FOUND))
async def get_silence(id: SilenceId, service: ServiceDependency, sight: SightDependency) -> Response:
    """Return one silence."""
    return json_answer(await _seen(id, service, sight))


@router.delete("/{id}", response_model=Silence, summary="End a silence", responses=problems(HTTPStatus.NOT_FOUND))
async def expire_silence(id: SilenceId, service: ServiceDependency, sight: SightDependency) -> Response:
    """End a silence now, and return it; one that has expired stays as it is."""
    await _seen(id, service, sight)
    await service.async_store.note(service.store.silences.expire, id)
    return json_answer(await service.async_store.ask(service.store.silences.get, id))


async def _seen(id: str, service: Service, sight: Sight) -> Silence:
    """Return a silence. Raises NotFound where there is none that the caller may know of."""
    kept = await service.async_store.ask(service.store.silences.get, id)
    if not sight.sees_silence(kept):
        raise no_such_silence(id)
    return kept
