"""Links from an incident to the site's own logs and dashboards, by templates of the notify file.

What stands in the place of `{job}` comes from a job: it is quoted, and stands behind the host alone.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, urlsplit

from shared.answer.incidents import Incident, SiteLink

PLACES = ("job", "node", "rank", "since", "until", "since_ms", "until_ms")
_MOST = 512
"""Characters of a value."""

# {job}, {since_ms}
_PLACE = re.compile(r"\{(\w*)\}", re.ASCII)
# https://grafana.example:3000/d/gpus?var-node={node}&from={since_ms}
_TEMPLATE = re.compile(r"https?://[^\s<>|\"`\\]+")


def check_template(template: str) -> None:
    """Raises ValueError where that is no template of a link."""
    parts = urlsplit(template)
    if not _TEMPLATE.fullmatch(template) or not parts.hostname or parts.username is not None:
        raise ValueError("a link begins with https://HOST/ or http://HOST/, without a user, spaces or quotes")
    if "{" in parts.netloc or "}" in parts.netloc:
        raise ValueError("no part of a link's host may be filled in")
    unknown = set(_PLACE.findall(template)) - {*PLACES}
    if unknown or set("{}") & set(_PLACE.sub("", template)):
        raise ValueError(f"what is filled in is one of {', '.join(f'{{{place}}}' for place in PLACES)}")


def links_of(templates: Mapping[str, str], incident: Incident, now: datetime) -> tuple[SiteLink, ...]:
    """Return the links of an incident; without those that need what is not known of it."""
    values = _values(incident, now)
    made = ((title, _filled(template, values)) for title, template in templates.items())
    return tuple(SiteLink(title=title, url=url) for title, url in made if url is not None)


def _values(incident: Incident, now: datetime) -> dict[str, str]:
    since = datetime.fromisoformat(incident.still_since or incident.opened_at)
    until = now if incident.resolved_at is None else datetime.fromisoformat(incident.resolved_at)
    return {
        "job": incident.job,
        "node": incident.hosts[0] if incident.hosts else "",
        "rank": str(incident.culprits[0].rank) if incident.culprits else "",
        "since": incident.still_since or incident.opened_at,
        "until": incident.resolved_at or until.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "since_ms": str(int(since.timestamp() * 1000)),
        "until_ms": str(int(until.timestamp() * 1000)),
    }


def _filled(template: str, values: Mapping[str, str]) -> str | None:
    """Fill in a template; None where a value is not known, or would be a step to another folder (`..`)."""
    used = {place: values[place] for place in _PLACE.findall(template)}
    if any(not value.strip(".") for value in used.values()):
        return None
    return _PLACE.sub(lambda place: quote(used[place[1]][:_MOST], safe="", errors="replace"), template)
