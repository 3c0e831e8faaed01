"""A service's application: its OpenAPI document describes what it answers, and `/docs` shows that without scripts."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from shared.answer.problem import Problem
from shared.server.api.page import CONTENT_SECURITY_POLICY, render_page
from shared.server.problem_handlers import install_problem_handlers, problems

_OF_ANY = problems(
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.MISDIRECTED_REQUEST,
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    HTTPStatus.INTERNAL_SERVER_ERROR,
)
"""Answers of every route: those of authorization, of the check of host names, and of an unexpected error."""

_OF_GUARDED = problems(HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_OF_PARAMETERS = problems(HTTPStatus.UNPROCESSABLE_ENTITY)
_FASTAPIS_OWN = ("HTTPValidationError", "ValidationError")

_PAGE_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Api(FastAPI):
    """FastAPI with our errors and a page of documentation that needs no other host and runs no script."""

    def __init__(self, **fastapis: Any) -> None:
        # A path with a slash too many is unknown: the redirect would name whatever host the caller sent.
        # Generators of clients call their functions by the ids of operations.
        super().__init__(
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            generate_unique_id_function=lambda route: route.name,
            servers=[{"url": "/", "description": "The service that gave this document."}],
            **fastapis,
        )
        install_problem_handlers(self)
        self.add_route("/docs", self._show_docs, include_in_schema=False)
        self._page = b""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, with every problem that each route may answer with."""
        if self.openapi_schema is None:
            self.openapi_schema = _with_problems(super().openapi())
        return self.openapi_schema

    async def _show_docs(self, request: Request) -> Response:
        if not self._page:
            self._page = render_page(self.openapi()).encode()
        return Response(self._page, media_type="text/html", headers=_PAGE_HEADERS)


def _with_problems(document: dict[str, Any]) -> dict[str, Any]:
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"] = dict(sorted(_answers(operation).items()))
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in _FASTAPIS_OWN:
        schemas.pop(name, None)
    schemas[Problem.__name__] = Problem.model_json_schema(mode="serialization")
    return document


def _answers(operation: dict[str, Any]) -> dict[str, Any]:
    takes_any = operation.get("parameters") or "requestBody" in operation
    added = {**_OF_ANY, **(_OF_GUARDED if "security" in operation else {}), **(_OF_PARAMETERS if takes_any else {})}
    return {**operation["responses"], **{str(status): answer for status, answer in added.items()}}
