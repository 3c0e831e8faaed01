"""Templates into pages: everything that is not markup of ours is escaped, and what a page may load is nothing.

Style and script stand in the page itself, named by their hashes in its Content-Security-Policy: no inline handler, no
style attribute and no foreign script runs, whatever a job writes. The one file has the policy in its head; a server
sends it as a header, too.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files

from jinja2 import BaseLoader, Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from collector.show.html.export import exports_of
from collector.show.html.report import Report
from collector.show.text.printable import printable, shortened
from collector.show.text.waits import folded, operation_text, ranks_text
from shared import VERSION
from shared.errors import UnhangError
from shared.plural import counted
from shared.units import duration_text

_LONGEST_TEXT = 4_000

MEDIA_TYPE = "text/html"


@dataclass(frozen=True)
class Site:
    """What stands around a page. `served`: by a collector, so there are other pages; `signed_in`: by a token here."""

    served: bool = False
    signed_in: bool = False
    here: str = ""
    """The link of the navigation that the page belongs to."""


# 2026-01-02T03:04:05.678Z
_MOMENT = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$", re.ASCII)

FILE = Site()
"""A file on its own: no navigation, nothing to ask."""


REST_FOLLOWS = "<!-- what it rests on -->"
"""Before it stand the four answers, which need the verdict alone."""


def render_report(report: Report, site: Site = FILE) -> str:
    """Return the page of one diagnosis."""
    exports = () if site.served else exports_of(report)
    values = {"report": report, "exports": exports, "rest_follows": Markup(REST_FOLLOWS)}
    return render("diagnosis.html", site, title=_title(report), **values)


def render_trouble(error: UnhangError) -> str:
    """Return what stands in a diagnosis's page in the place of what cannot be shown."""
    detail = f"What it rests on cannot be shown: {error}"
    return Markup('<section class="card trouble"><p>{}</p><p class="label">{}</p></section>').format(
        detail, error.advice
    )


def _title(report: Report) -> str:
    return f"{report.diagnosis.verdict.value}: {report.diagnosis.job or 'job'}"


def render(template: str, site: Site, **values: object) -> str:
    """Return one page."""
    style, script = _asset("page.css"), _asset("page.js")
    return (
        _environment()
        .get_template(template)
        .render(
            site=site,
            style=Markup(style),
            script=Markup(script),
            policy=policy(served=site.served),
            version=VERSION,
            **values,
        )
    )


@cache
def policy(*, served: bool) -> str:
    """Return the Content-Security-Policy: our style and script by their hashes, and nothing from anywhere else."""
    rules = [
        "default-src 'none'",
        f"style-src '{_hash(_asset('page.css'))}'",
        f"script-src '{_hash(_asset('page.js'))}'",
        "img-src data:",
        "base-uri 'none'",
        *(["connect-src 'self'", "form-action 'self'"] if served else ["form-action 'none'"]),
    ]
    return "; ".join(rules)


def headers() -> dict[str, str]:
    """Return what a server sends with a page."""
    return {
        "Content-Security-Policy": f"{policy(served=True)}; frame-ancestors 'none'",
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def _template(name: str) -> str | None:
    try:
        return files(__package__).joinpath("templates", name).read_text("utf-8")
    except FileNotFoundError:
        return None


@cache
def _environment() -> Environment:
    loader: BaseLoader = FunctionLoader(_template)
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        auto_reload=False,
    )
    environment.filters |= {
        "folded": folded,
        "ranks": ranks_text,
        "many": counted,
        "short": shortened,
        "moment": _moment,
        "lasted": duration_text,
        "age": _age,
        "breakable": _breakable,
    }
    environment.globals |= {"operation": operation_text}
    return environment


def _moment(rfc3339: str) -> str:
    """Write `2026-01-02T03:04:05.678Z` as people read it; anything else stays as it is."""
    return _MOMENT.sub(r"\1 \2 UTC", rfc3339)


def _age(rfc3339: str, now: datetime) -> str:
    return duration_text(max(0.0, (now - datetime.fromisoformat(rfc3339)).total_seconds()))


def _breakable(path: str) -> Markup:
    """Let a path go on in the next line behind a slash, and nowhere else where that is enough."""
    return Markup("/<wbr>").join(printable(path, most=_LONGEST_TEXT).split("/"))


def _shown(value: object) -> object:
    """Return a text that a template prints with control characters written as escapes, and bounded."""
    return printable(value, most=_LONGEST_TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value
