"""Diagnoses as HTML: what each rests on comes from the store. The latest pages are kept, for they never change."""

import asyncio
from collections import OrderedDict

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from collector.align.expected import Expected
from collector.keep.kept import Kept
from collector.service import Service
from collector.show.html.page import FILE, Site, headers, render_report
from collector.show.html.report import Report, report_of
from shared.answer.diagnosis import Diagnosis
from shared.answer.follow_up import asked_through
from shared.errors import NotFound

_MOST_PAGES = 16
_LARGEST = 4 * 1024 * 1024
"""Characters of a page that is kept: sixteen of them are 64 MiB."""


class ReportPages:
    """The pages of diagnoses. One is made at a time: that of a large job takes the processor for seconds."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._made: OrderedDict[tuple[str, Site, tuple[str, ...]], str] = OrderedDict()
        self._turn = asyncio.Lock()

    async def answer(self, diagnosis: Diagnosis, site: Site = FILE, *, source: tuple[str, ...]) -> Response:
        """Return the page of a diagnosis; without a site around it, as one file. Raises StoreTrouble.

        `source` is what makes commands to copy ask this collector, such as `--collector URL`.
        """
        key = diagnosis.id, site, source
        if key not in self._made:
            async with self._turn:
                if key not in self._made:
                    report = await self._prepared(diagnosis, source)
                    self._made[key] = await asyncio.to_thread(render_report, report, site)
        page = self._made[key]
        self._made.move_to_end(key)
        self._let_go()
        sent = (
            headers() | {"Location": f"/v1/diagnoses/{diagnosis.id}", "Vary": "Accept"} if site == FILE else headers()
        )
        return HTMLResponse(page, headers=sent)

    async def report(self, diagnosis: Diagnosis, *, source: tuple[str, ...]) -> Report:
        """Return the values of one page. Raises StoreTrouble."""
        async with self._turn:
            return await self._prepared(diagnosis, source)

    async def _prepared(self, diagnosis: Diagnosis, source: tuple[str, ...]) -> Report:
        kept = Kept(diagnosis=diagnosis, expected=Expected(job=diagnosis.job), snapshots=())
        try:
            kept = await self._service.async_store.ask(self._service.store.kept, diagnosis.id)
        except NotFound:
            pass  # it was not kept, and its verdict is all there is
        kept = kept.model_copy(update={"diagnosis": asked_through(kept.diagnosis, *source)})
        return await asyncio.to_thread(report_of, kept)

    def _let_go(self) -> None:
        while len(self._made) > _MOST_PAGES:
            self._made.popitem(last=False)
        for key in [key for key, page in self._made.items() if len(page) > _LARGEST]:
            del self._made[key]


def pages_of(request: Request) -> ReportPages:
    """Return the pages of diagnoses, which live as long as the application."""
    found = request.app.state.report_pages
    assert isinstance(found, ReportPages)
    return found
