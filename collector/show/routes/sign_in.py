"""Signing in and out: a bearer token is shown once, and a cookie is given for it."""

import time
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from collector.show.routes.common import ServiceDependency, form_of
from collector.show.routes.pages.frame import PageRoute, page
from shared.server.audit import AuditLog, Refusal, Refused
from shared.server.gate import who_asks
from shared.server.sessions import COOKIE, SECONDS, SIGN_IN, SIGN_OUT, local_target, new_cookie
from shared.server.tokens import TokenFile

open_router = APIRouter(route_class=PageRoute, include_in_schema=False)
router = APIRouter(route_class=PageRoute, include_in_schema=False)

_NOT_KNOWN = "This collector does not know that token."


@open_router.get(SIGN_IN)
async def ask_for_token(
    request: Request, service: ServiceDependency, next: Annotated[str, Query(max_length=2000)] = "/"
) -> Response:
    """Show the form; where no token is needed, go on."""
    if service.settings.token_file is None:
        return RedirectResponse(local_target(next), status_code=HTTPStatus.SEE_OTHER)
    return page(request, "login.html", title="Sign in", next=local_target(next), problem="")


@open_router.post(SIGN_IN)
async def take_token(request: Request, service: ServiceDependency) -> Response:
    """Exchange a token for a cookie. The gate has bounded the body, and no other site's page can send one."""
    given = await form_of(request, encoding="latin-1")
    token = given.get("token", "").strip().encode("latin-1")
    wanted = local_target(given.get("next", "/"))
    file = service.settings.token_file
    if file is None:
        return RedirectResponse(wanted, status_code=HTTPStatus.SEE_OTHER)
    audit: AuditLog = request.app.state.audit
    if not token or not TokenFile(file).knows(token):
        audit.refused(Refusal(who_asks(request)["client"], Refused.WRONG_TOKEN, f"POST {SIGN_IN}"))
        return page(request, "login.html", HTTPStatus.FORBIDDEN, title="Sign in", next=wanted, problem=_NOT_KNOWN)
    request.state.signed_in_with = token
    audit.write("signed_in", **who_asks(request))
    answer = RedirectResponse(wanted, status_code=HTTPStatus.SEE_OTHER)
    over_tls = request.scope["scheme"] == "https"
    answer.set_cookie(
        COOKIE,
        new_cookie(token, now=time.time()),
        max_age=SECONDS,
        path="/",
        secure=over_tls,
        httponly=True,
        samesite="strict",
    )
    return answer


@router.post(SIGN_OUT)
async def sign_out(request: Request) -> Response:
    """Take the cookie back."""
    audit: AuditLog = request.app.state.audit
    audit.write("signed_out", **who_asks(request))
    answer = RedirectResponse(SIGN_IN, status_code=HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE, path="/", secure=request.scope["scheme"] == "https", httponly=True, samesite="strict")
    return answer
