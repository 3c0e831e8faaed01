"""What all pages have in common: the site around them, errors that are pages as well, and forms that search lists."""

from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute

from collector.keep.database import StoreTrouble
from collector.keep.runs import Busy
from collector.show.html.page import Site, headers, render
from shared.answer.words import Cause, Kind
from shared.errors import UnhangError
from shared.server.problem_handlers import status_of

PER_PAGE = 50
"""Rows of a list."""

Text = Annotated[str, Query(max_length=300)]


@dataclass(frozen=True)
class FaultForm:
    """What the form above a list of faults asks for. A kind or cause that there is not counts as any."""

    job: Text = ""
    node: Text = ""
    kind: Text = ""
    cause: Text = ""

    @property
    def wanted(self) -> tuple[str | None, str | None, Kind | None, Cause | None]:
        """Return job, node, kind and cause; None: any."""
        return (
            self.job or None,
            self.node or None,
            Kind(self.kind) if self.kind in set(Kind) else None,
            Cause(self.cause) if self.cause in set(Cause) else None,
        )

    def shown(self, **more: str) -> dict[str, Any]:
        """Return what the template of the form takes; `more` are fields beside those of all such forms."""
        return {"wanted": {**asdict(self), **more}, "kinds": tuple(Kind), "causes": tuple(Cause)}


FaultFormDependency = Annotated[FaultForm, Depends(FaultForm)]


class PageRoute(APIRoute):
    """A route whose errors are pages as well."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except UnhangError as error:
                return _trouble(request, error)
            except RequestValidationError as error:
                said = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors()[:4])
                return page(
                    request, "trouble.html", HTTPStatus.UNPROCESSABLE_ENTITY, title="Refused", detail=said, advice=""
                )

        return answer


def page(
    request: Request, template: str, status: HTTPStatus = HTTPStatus.OK, *, here: str = "", **values: object
) -> HTMLResponse:
    """Return one page of ours as an answer."""
    return HTMLResponse(render(template, site_of(request, here), **values), status_code=status.value, headers=headers())


def site_of(request: Request, here: str = "") -> Site:
    """Return what stands around the pages that this caller gets."""
    signed_in = getattr(request.state, "signed_in_with", None) is not None
    return Site(served=True, signed_in=signed_in, here=here)


def _trouble(request: Request, error: UnhangError) -> Response:
    busy = isinstance(error, Busy | StoreTrouble)
    status = HTTPStatus.SERVICE_UNAVAILABLE if busy else status_of(error)
    return page(request, "trouble.html", status, title=status.phrase, detail=str(error), advice=error.advice)
