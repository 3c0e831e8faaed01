"""The page on preflights: what each found, and what it found one node to be."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from collector.show.routes.common import Before, ServiceDependency, cut_at
from collector.show.routes.pages.frame import PER_PAGE, PageRoute, Text, page
from collector.show.routes.preflights import record_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/preflights")
async def show_preflights(
    request: Request, service: ServiceDependency, node: Text = "", before: Before = None
) -> Response:
    """Show preflights, newest first; of one node those in which it took part."""
    rows = await service.async_store.ask(
        service.store.preflights.list, host=node or None, limit=PER_PAGE + 1, before=before
    )
    shown, more = cut_at(rows, PER_PAGE)
    return page(
        request,
        "preflights.html",
        here="preflights",
        title="Preflights",
        node=node,
        preflights=shown,
        record=record_of(node, shown),
        next=more,
    )
