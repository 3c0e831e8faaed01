"""What routes have in common: the service they get, the job they name, and how values become responses."""

import re
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

from fastapi import Depends, Header, Path, Query, Request
from fastapi.responses import Response

from collector.service import Service
from shared.errors import InvalidInput, InvalidRankSet, UnhangError
from shared.rank_sets import unfold
from shared.value import Value

_RANK_SET = "^[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*$"
"""What the description says of the parameter `ranks`."""

# 127.0.0.1:8470, head.example, [::1]:8470
_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)

_LONGEST_RANKS = 32_768
"""Characters: a request's whole head may be twice as long (shared/server/gate.py)."""


class NotAcceptable(UnhangError):
    """None of the media types asked for is on offer."""


def _service(request: Request) -> Service:
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


ServiceDependency = Annotated[Service, Depends(_service)]

Accept = Annotated[str | None, Header(include_in_schema=False)]
"""What the caller wants of what a route offers, which its description lists (OpenAPI 3.1, 4.8.12.2)."""

JobName = Annotated[
    str,
    Path(
        description="The job's name as `GET /v1/jobs` gives it. It may hold `:` and `/`, plain or as %3A and %2F.",
        examples=["slurm-4242"],
    ),
]


OfJob = Annotated[str | None, Query(description="Only of this job.")]
Before = Annotated[str | None, Query(description="Only those older than this id.", max_length=64)]
Limit = Annotated[int, Query(ge=1, le=500, description="At most so many.")]
"""What lists are cut by."""


def source_of(request: Request) -> tuple[str, ...]:
    """Return what makes a command ask this collector: `--collector` with the notify file's URL, else the caller's own.

    Empty where neither is known. Nothing goes by it here: it is shown to whoever asked with that `Host`.
    """
    notifier = _service(request).notifier
    if notifier is not None and notifier.page_url:
        return "--collector", notifier.page_url.rstrip("/")
    host = request.headers.get("host", "")
    return ("--collector", f"{request.scope['scheme']}://{host}") if _HOST.fullmatch(host) else ()


def _ranks(
    ranks: Annotated[
        str | None,
        Query(
            description="Only these ranks, folded.",
            examples=["0-3,7"],
            max_length=_LONGEST_RANKS,
            json_schema_extra={"pattern": _RANK_SET},  # the error that unfolding raises says more
        ),
    ] = None,
) -> frozenset[int] | None:
    if ranks is None:
        return None
    if not ranks:
        raise InvalidRankSet("the rank set is empty", advice="write ranks as 0-3,7")
    return frozenset(unfold(ranks))


Ranks = Annotated[frozenset[int] | None, Depends(_ranks)]
"""The query parameter `ranks`; None: all."""


Row = TypeVar("Row", bound=Any)


def cut_at(rows: tuple[Row, ...], limit: int) -> tuple[tuple[Row, ...], str | None]:
    """Return one page of rows that have ids, of which one more was asked for, and what to go on `before`."""
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None


def json_answer(value: Value, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return `value` as JSON bytes; bulk is never turned into Python objects on its way out."""
    body = value.model_dump_json(by_alias=True)
    return Response(body, status_code=status, media_type="application/json", headers=headers)


async def form_of(request: Request, *, encoding: str = "utf-8") -> dict[str, str]:
    """Return the fields of a form that a page of ours has sent; the gate has bounded its body."""
    body = (await request.body()).decode("latin-1")
    try:
        given = parse_qs(body, max_num_fields=8, encoding=encoding, errors="replace")
    except ValueError as error:
        raise InvalidInput("the form has more fields than ours") from error
    return {name: values[0] for name, values in given.items()}


def choose_media(accept: str | None, offered: tuple[str, ...]) -> str:
    """Return what the `Accept` header prefers of `offered`, the first where it does not care.

    Raises NotAcceptable. RFC 9110, section 12.5.1; of parameters only `q` counts.
    """
    if not accept or not accept.strip():
        return offered[0]
    wanted = [_media_range(part) for part in accept[:2000].split(",")]
    best, best_quality = None, 0.0
    for media in offered:
        quality = _quality(media, wanted)
        if quality > best_quality:
            best, best_quality = media, quality
    if best is None:
        raise NotAcceptable(f"none of these is what was asked for: {', '.join(offered)}")
    return best


def _media_range(part: str) -> tuple[str, float]:
    media, *parameters = (piece.strip().lower() for piece in part.split(";"))
    given = next((p[2:] for p in parameters if p.startswith("q=")), "1")
    try:
        return media, min(1.0, max(0.0, float(given)))
    except ValueError:
        return media, 1.0


def _quality(media: str, wanted: list[tuple[str, float]]) -> float:
    """Return the quality of the most specific range that covers `media`."""
    for covering in (media, f"{media.partition('/')[0]}/*", "*/*"):
        matching = [quality for name, quality in wanted if name == covering]
        if matching:
            return matching[0]
    return 0.0
