"""What each tool asks of the REST API, and answers. None changes anything."""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import Any

from collector.concurrency.threads import run_in_thread
from collector.keep.run_ledger import RunState
from collector.show.html.compare import comparison
from collector.show.mcp.answers import answer_of
from collector.show.mcp.described import PARTS
from collector.show.mcp.pages import Document, Page, not_a_cursor, page_of
from collector.show.mcp.rest import OnStep, Rest, segment
from shared.answer.diagnosis import Diagnosis
from shared.answer.incidents import IncidentState
from shared.answer.words import Act, Certainty, Verdict
from shared.errors import InvalidInput

_LISTED = 50
"""Diagnoses or incidents that one page holds at most."""

_CUT, _MOST_OF_EACH = ("culprits", "holds", "members"), 8
"""Of one incident in a list, as its description says."""

_LATER = "it is being made: call get_diagnosis with this id in some seconds"
_NOW = "more is there: ask for fewer `ranks`, or call diagnose_job and pass its id as `diagnosis`, which has all pages"

Given = dict[str, Any]
Run = Callable[[Rest, Given, OnStep], Awaitable[Document]]
"""Asks for what these arguments say. Raises UnhangError."""


async def _list_jobs(rest: Rest, given: Given, _: OnStep) -> Document:
    """Jobs come and go between two pages: the cursor names the first that was not given."""
    found = await rest.get("/v1/jobs", "jobs")
    cursor, jobs = given["cursor"], found["jobs"]
    if cursor is not None and cursor.startswith("from."):
        name, within = _split(cursor)
        first = _decoded(name)
        jobs = [job for job in jobs if job["name"] >= first]
        is_there = bool(jobs) and jobs[0]["name"] == first
        cursor = f"jobs.0{within}" if is_there and within else None
    page = await _paged({**found, "jobs": jobs}, cursor)
    following = page.next
    if following is not None and following.startswith("jobs."):
        at, within = _split(following)
        following = f"from.{_encoded(jobs[int(at)]['name'])}{within}"
    return answer_of(page, next=following)


async def _diagnose_job(rest: Rest, given: Given, on_step: OnStep) -> Document:
    return await _diagnosed(await rest.diagnose(given["job"], wait_seconds=given["wait_seconds"], on_step=on_step))


async def _get_diagnosis(rest: Rest, given: Given, _: OnStep) -> Document:
    return await _diagnosed(await rest.fetch(given["id"]), part=given["part"], cursor=given["cursor"])


async def _list_diagnoses(rest: Rest, given: Given, _: OnStep) -> Document:
    return await _listed(rest, "diagnoses", given["cursor"], job=given.get("job"), host=given["node"])


async def _list_incidents(rest: Rest, given: Given, _: OnStep) -> Document:
    asked = {name: given[name] for name in ("job", "state", "kind", "cause")}
    return await _listed(rest, "incidents", given["cursor"], host=given["node"], **asked)


async def _get_incident(rest: Rest, given: Given, _: OnStep) -> Document:
    found = await rest.get(f"/v1/incidents/{segment(given['id'])}", "id", "state")
    page = await _paged(found, given["cursor"])
    return answer_of(page, next=page.next, id=found["id"], state=IncidentState(found["state"]))


async def _node_history(rest: Rest, given: Given, _step: OnStep) -> Document:
    """Incidents are walked first: the cursor says which of the two lists it is in, and where."""
    part, _, cursor = (given["cursor"] or "incidents").partition(".")
    other = {"incidents": "diagnoses", "diagnoses": "incidents"}.get(part)
    if other is None:
        raise not_a_cursor(given["cursor"])
    found = await _listed(rest, part, cursor or None, host=given["node"])
    after = None if found["next"] is None else f"{part}.{found['next']}"
    following = "diagnoses" if after is None and part == "incidents" else after
    return {**found, "next": following, "untrusted": {**found["untrusted"], other: []}}


async def _listed(rest: Rest, what: str, cursor: str | None, **asked: str | None) -> Document:
    """Return a page of a list; incidents are short enough there to be on one, and get_incident has all of each."""
    found = await rest.get(f"/v1/{what}", what, "next", before=cursor, limit=_LISTED, **asked)
    if what == "incidents":
        found["incidents"] = [
            {
                **each,
                "history": [],
                **{name: each.get(name, [])[:_MOST_OF_EACH] for name in ("culprits", "holds", "members")},
            }
            for each in found["incidents"]
        ]
    page = await _paged({what: found[what]}, None)
    given = page.document[what]
    return answer_of(page, next=found["next"] if page.next is None else given[-1]["id"])


async def _list_agents(rest: Rest, given: Given, _: OnStep) -> Document:
    page = await _paged(await rest.get("/v1/agents", "agents"), given["cursor"])
    return answer_of(page, next=page.next)


async def _compare_diagnoses(rest: Rest, given: Given, _: OnStep) -> Document:
    left, right = [await rest.fetch(given[name]) for name in ("left", "right")]
    if isinstance(left, RunState) or isinstance(right, RunState):
        raise InvalidInput("one of them is being made still", advice=_LATER)
    facts = comparison(Diagnosis.model_validate(left), Diagnosis.model_validate(right))
    page = await _paged({"facts": [fact.model_dump(mode="json") for fact in facts]}, given["cursor"])
    return answer_of(page, next=page.next)


def _aspect(path: str, *names: str, **fixed: str) -> Run:
    """Return what gives a page of one aspect. Of what is looked at now there is only the first: the next differs."""

    async def run(rest: Rest, given: Given, _: OnStep) -> Document:
        earlier, cursor = given["diagnosis"], given["cursor"]
        if cursor is not None and earlier is None:
            raise InvalidInput("a look at the job as it is now has one page", advice=_NOW)
        asked = {name: given[name] for name in names}
        route = f"/v1/jobs/{segment(given['job'])}/{path}"
        page = await _paged(await rest.get(route, "job", diagnosis=earlier, **asked, **fixed), cursor)
        if page.next is not None and earlier is None:
            return answer_of(page, advice=_NOW)
        return answer_of(page, next=page.next)

    return run


async def _diagnosed(found: Document | RunState, *, part: str | None = None, cursor: str | None = None) -> Document:
    if isinstance(found, RunState):
        step = found.step.model_dump(mode="json")
        return answer_of(None, advice=_LATER, id=found.id, status="running", step=step, **_NOT_YET)
    verdict = Verdict(found["verdict"])
    empty = Diagnosis(verdict=verdict, headline="").model_dump(mode="json", by_alias=True)
    others = {each: empty[each] for each in PARTS if part is not None and each != part}
    page = await _paged({**found, **others}, cursor)
    act = None if found.get("action") is None else Act(found["action"]["do"])
    certainty = Certainty(found["findings"][0]["certainty"]) if found.get("findings") else None
    words = {"verdict": verdict, "act": act, "certainty": certainty}
    return answer_of(page, next=page.next, id=found["id"], status="ready", step=None, **words)


_NOT_YET = {"verdict": None, "act": None, "certainty": None}


async def _paged(document: Document, cursor: str | None) -> Page:
    return await run_in_thread(page_of, document, cursor)


def _split(cursor: str) -> tuple[str, str]:
    """Return the second part of a cursor, and what is after it, with its dot."""
    _, second, *within = cursor.split(".", 2)
    return second, "".join(f".{part}" for part in within)


def _encoded(name: str) -> str:
    return urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _decoded(name: str) -> str:
    try:
        return b64decode(name + "=" * (-len(name) % 4), b"-_", validate=True).decode("utf-8", "surrogatepass")
    except ValueError as error:
        raise not_a_cursor(name) from error


RUNS: dict[str, Run] = {
    "list_jobs": _list_jobs,
    "diagnose_job": _diagnose_job,
    "get_diagnosis": _get_diagnosis,
    "list_diagnoses": _list_diagnoses,
    "list_incidents": _list_incidents,
    "get_incident": _get_incident,
    "node_history": _node_history,
    "show_stacks": _aspect("stacks", "ranks", format="classes"),
    "show_sequences": _aspect("sequences", "ranks"),
    "show_logs": _aspect("logs", "ranks", "lines"),
    "show_fds": _aspect("fds", "ranks"),
    "check_job": _aspect("check"),
    "compare_diagnoses": _compare_diagnoses,
    "list_agents": _list_agents,
}
"""By the name of the tool."""
