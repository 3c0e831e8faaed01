"""Make, list and fetch diagnoses."""

import asyncio
import tempfile
from collections.abc import Iterator
from http import HTTPStatus
from typing import IO, Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from pydantic import ConfigDict, Field

from collector.keep.bundle import bundle_name, write_bundle
from collector.keep.history import PastWanted, search
from collector.keep.kept import Kept
from collector.keep.run_ledger import RunState
from collector.keep.store import Listed
from collector.question import NativePolicy, Question, later_deadline
from collector.show.routes.common import (
    Accept,
    Before,
    JobName,
    Limit,
    OfJob,
    ServiceDependency,
    choose_media,
    cut_at,
    json_answer,
    source_of,
)
from collector.show.routes.pages.reports import pages_of
from collector.show.routes.rights import SightDependency
from collector.show.text.markdown import render_markdown
from collector.show.text.text import render_text
from shared.answer.diagnosis import Diagnosis
from shared.answer.follow_up import asked_through
from shared.answer.words import Cause, Kind
from shared.errors import UnhangError
from shared.server.problem_handlers import problems
from shared.value import JSON_INTEGER, Value

router = APIRouter(tags=["diagnoses"], responses=problems(HTTPStatus.SERVICE_UNAVAILABLE))

_MEDIA = ("application/json", "text/markdown", "text/plain", "text/html")
_TEXT_WIDTH = 100
_IN_MEMORY = 8 * 1024 * 1024
_CHUNK = 262_144

DiagnosisId = Annotated[
    str,
    Path(
        description="As the list of diagnoses, or the Location of a 202, gives it.",
        examples=["0195a1c8-7b31-7b3f-a2d6-a3933daff891"],
        max_length=64,
    ),
]

_READY: dict[str, Any] = {
    "model": Diagnosis,
    "description": "The diagnosis.",
    "content": {"text/markdown": {}, "text/plain": {}, "text/html": {}},
}
_PENDING: dict[str, Any] = {
    "model": RunState,
    "description": "It is being made. Ask again at `Location` after `Retry-After` seconds.",
    "headers": {
        "Location": {"schema": {"type": "string"}, "description": "`/v1/diagnoses/{id}`"},
        "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."},
    },
}

_FAILED = problems(HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.NOT_ACCEPTABLE, HTTPStatus.GONE)
"""With what may end a run."""


class Options(Value):
    """How to look, where the collector's settings do not suit. All optional."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"examples": [{"looks": 1}]})

    looks: Annotated[int, Field(strict=True, ge=1, le=10), JSON_INTEGER] | None = Field(
        default=None, description="2 tell what moves; 1 is quicker."
    )
    interval_seconds: float | None = Field(
        default=None, strict=True, ge=0.0, le=600.0, description="Pause between two looks."
    )
    window: Annotated[int, Field(strict=True, ge=1, le=1_000_000), JSON_INTEGER] | None = Field(
        default=None, description="Last records asked per group."
    )
    deadline_seconds: float | None = Field(
        default=None,
        strict=True,
        gt=0.0,
        le=3600.0,
        description="When the verdict is due; then without patience. By default later where looks are far apart.",
    )
    patience_seconds: float | None = Field(
        default=None,
        strict=True,
        ge=0.0,
        le=3600.0,
        description="How much later it may come where only time tells slow from stuck.",
    )
    native: NativePolicy | None = Field(
        default=None, description="Whose native stacks to read; this stops a process for about a second."
    )
    keep: bool | None = Field(
        default=None, strict=True, description="false: it is not kept, unless somebody else asks for it meanwhile."
    )


class DiagnosisList(Value):
    """One page of diagnoses, newest first."""

    diagnoses: tuple[Listed, ...]
    next: str | None = Field(default=None, description="Pass it as `before` for the next page; null on the last.")


@router.post(
    "/v1/jobs/{job:path}/diagnoses",
    summary="Diagnose a job now",
    responses={200: _READY, 202: _PENDING, **_FAILED},
    response_model=None,
)
async def diagnose_job(
    job: JobName,
    service: ServiceDependency,
    request: Request,
    sight: SightDependency,
    wait: Annotated[
        float, Query(ge=0.0, le=600.0, description="Seconds to wait for the verdict before answering 202.")
    ] = 0.0,
    options: Annotated[Options | None, Body()] = None,
    accept: Accept = None,
) -> Response:
    """Look at the job, twice by default, and judge what was seen.

    Answers 200 with the diagnosis if it is ready within `wait` seconds, else 202; the work goes on in either case.
    A request about a job that is being diagnosed joins that run, also at another collector that shares the store: the
    options of the first request apply. The status does not depend on the verdict: a hung job is a 200, too. 404: no
    agent knows such a job.
    """
    media = choose_media(accept, _MEDIA)
    keep = options is None or options.keep is not False
    run = await service.start(with_options(service.question(await sight.job(job)), options), keep=keep)
    try:
        diagnosis = await run.within(wait)
    except UnhangError as error:
        raise sight.unknown(job, error) from None
    if diagnosis is None:
        return _pending(run.state)
    await sight.made(diagnosis, job)
    return await _ready(diagnosis, media, request)


@router.get("/v1/diagnoses", response_model=DiagnosisList, summary="List diagnoses, newest first")
async def list_diagnoses(
    service: ServiceDependency,
    sight: SightDependency,
    job: OfJob = None,
    host: Annotated[
        str | None, Query(description="Only with a finding that names a culprit or a link on this node.")
    ] = None,
    kind: Annotated[Kind | None, Query(description="Only with a finding of this kind.")] = None,
    cause: Annotated[Cause | None, Query(description="Only with a finding of this cause.")] = None,
    limit: Limit = 50,
    before: Before = None,
) -> Response:
    """Return what is kept, a page at a time. Those being made are not listed.

    Where few of the newest thousand fit, a page is short, or empty, and `next` goes on from there.
    """
    wanted = PastWanted(job, host, kind, cause)
    if wanted.needs_findings:
        past = await service.async_store.ask(
            search, service.store, wanted, limit=limit, before=before, seen_by=sight.access
        )
        return json_answer(DiagnosisList(diagnoses=tuple(row.listed for row in past.diagnoses), next=past.next))
    rows = await service.async_store.ask(
        service.store.list, job=job, limit=limit + 1, before=before, seen_by=sight.access
    )
    shown, more = cut_at(rows, limit)
    return json_answer(DiagnosisList(diagnoses=shown, next=more))


_ARCHIVE = {
    "type": "string",
    "format": "binary",
    "contentMediaType": "application/gzip",
    "description": "`diagnosis.json` and what it rests on, as `unhang diagnose --from FILE` reads it.",
}


@router.get(
    "/v1/diagnoses/{id}",
    summary="Fetch one diagnosis",
    responses={200: _READY, 202: _PENDING, **_FAILED},
    response_model=None,
)
async def get_diagnosis(id: DiagnosisId, sight: SightDependency, request: Request, accept: Accept = None) -> Response:
    """Return the diagnosis as JSON, Markdown, plain text, or a page in one file that needs no network.

    202 while it is being made, by this collector or another. What ended it if it failed; 410 if the collector that made
    it ended before it was ready.
    """
    media = choose_media(accept, _MEDIA)
    found = await sight.fetch(id)
    return await _ready(found, media, request) if isinstance(found, Diagnosis) else _pending(found)


@router.get(
    "/v1/diagnoses/{id}/bundle",
    summary="Fetch everything a diagnosis rests on",
    responses={
        200: {"content": {"application/gzip": {"schema": _ARCHIVE}}, "description": "A .tar.gz archive."},
        **problems(HTTPStatus.NOT_FOUND),
    },
    response_class=StreamingResponse,
)
async def get_bundle(id: DiagnosisId, service: ServiceDependency, sight: SightDependency) -> Response:
    """Return the diagnosis and its snapshots as one archive; `unhang diagnose --from FILE` judges them again."""
    await sight.diagnosis(id)
    kept = await service.async_store.ask(service.store.kept, id)
    file = await asyncio.to_thread(_bundle, kept)
    disposition = f'attachment; filename="{bundle_name(kept)}"'
    return StreamingResponse(_chunks(file), media_type="application/gzip", headers={"Content-Disposition": disposition})


def with_options(question: Question, options: Options | None) -> Question:
    """Return the question as the caller wants it: who sets a deadline means it, and gets no patience unasked."""
    if options is None:
        return question
    given = options.model_dump(exclude_none=True, exclude={"keep"})
    if options.deadline_seconds is None:
        later = later_deadline(question, looks=options.looks, interval_seconds=options.interval_seconds)
        given["deadline_seconds"] = later
    else:
        given.setdefault("patience_seconds", 0.0)
    return Question.model_validate({**question.model_dump(), **given})


def _pending(state: RunState) -> Response:
    headers = {"Location": f"/v1/diagnoses/{state.id}", "Retry-After": "1"}
    return json_answer(state, status=202, headers=headers)


async def _ready(diagnosis: Diagnosis, media: str, request: Request) -> Response:
    if media == "text/html":
        return await pages_of(request).answer(diagnosis, source=source_of(request))
    headers = {"Location": f"/v1/diagnoses/{diagnosis.id}", "Vary": "Accept"}
    if media == "application/json":
        return json_answer(diagnosis, headers=headers)
    diagnosis = asked_through(diagnosis, *source_of(request))
    if media == "text/markdown":
        return PlainTextResponse(render_markdown(diagnosis), headers=headers, media_type=media)
    return PlainTextResponse(render_text(diagnosis, colour=False, width=_TEXT_WIDTH), headers=headers)


def _bundle(kept: Kept) -> IO[bytes]:
    file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed when sent
    write_bundle(kept, file)
    file.seek(0)
    return file


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk
