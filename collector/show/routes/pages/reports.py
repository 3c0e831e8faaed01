"""Diagnoses as HTML: what each rests on comes from the store. The latest pages are kept, for they never change."""

import asyncio
from collections.abc import AsyncIterator

from fastapi import Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from collector.align.expected import Expected
from collector.keep.kept import Kept
from collector.service import Service
from collector.show.html.page import FILE, REST_FOLLOWS, Site, headers, render_report, render_trouble
from collector.show.html.report import Report, report_of
from collector.show.routes.kept_views import KeptViews
from shared.answer.diagnosis import Diagnosis
from shared.answer.follow_up import asked_through
from shared.errors import NotFound, UnhangError


class ReportPages:
    """The pages of diagnoses. One is made at a time: that of a large job takes the processor for seconds."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._made = KeptViews()
        self._turn = asyncio.Lock()

    async def answer(self, diagnosis: Diagnosis, site: Site = FILE, *, source: tuple[str, ...]) -> Response:
        """Return the page of a diagnosis; without a site around it, as one file. Raises StoreTrouble.

        `source` is what makes commands to copy ask this collector, such as `--collector URL`. A page that is not made
        yet is sent in two pieces: to read and draw what thousands of ranks left takes seconds.
        """
        if site == FILE:
            sent = headers() | {"Location": f"/v1/diagnoses/{diagnosis.id}", "Vary": "Accept"}
            return HTMLResponse(await self._page(diagnosis, site, source), headers=sent)
        if self._made.holds((diagnosis.id, site, source)):
            return HTMLResponse(await self._page(diagnosis, site, source), headers=headers())
        pieces = self._in_pieces(diagnosis, site, source)
        return StreamingResponse(pieces, media_type="text/html", headers=headers())

    async def _in_pieces(self, diagnosis: Diagnosis, site: Site, source: tuple[str, ...]) -> AsyncIterator[str]:
        """Yield which rank, where, why and what now at once, then all that these rest on."""
        report = await asyncio.to_thread(verdict_report, diagnosis, source)
        brief = await asyncio.to_thread(render_report, report, site)
        answers, mark, rest = brief.partition(REST_FOLLOWS)
        yield answers + mark
        try:
            page = await self._page(diagnosis, site, source)
        except UnhangError as error:
            yield render_trouble(error)
            yield rest
            return
        yield page.partition(REST_FOLLOWS)[2]

    async def _page(self, diagnosis: Diagnosis, site: Site, source: tuple[str, ...]) -> str:
        async def made() -> bytes:
            report = await self.report(diagnosis, source=source)
            return (await asyncio.to_thread(render_report, report, site)).encode()

        return (await self._made.get((diagnosis.id, site, source), made)).decode()

    async def report(self, diagnosis: Diagnosis, *, source: tuple[str, ...]) -> Report:
        """Return the values of one page. Raises StoreTrouble."""
        async with self._turn:
            return await self._prepared(diagnosis, source)

    async def _prepared(self, diagnosis: Diagnosis, source: tuple[str, ...]) -> Report:
        try:
            kept = await self._service.async_store.ask(self._service.store.kept, diagnosis.id)
        except NotFound:
            kept = _bare(diagnosis)  # it was not kept, and its verdict is all there is
        return await asyncio.to_thread(report_of, _with_source(kept, source))


def _bare(diagnosis: Diagnosis) -> Kept:
    return Kept(diagnosis=diagnosis, expected=Expected(job=diagnosis.job), snapshots=())


def _with_source(kept: Kept, source: tuple[str, ...]) -> Kept:
    return kept.model_copy(update={"diagnosis": asked_through(kept.diagnosis, *source)})


def verdict_report(diagnosis: Diagnosis, source: tuple[str, ...]) -> Report:
    """Return what a diagnosis answers, without what it rests on."""
    return report_of(_with_source(_bare(diagnosis), source))


def pages_of(request: Request) -> ReportPages:
    """Return the pages of diagnoses, which live as long as the application."""
    found = request.app.state.report_pages
    assert isinstance(found, ReportPages)
    return found
