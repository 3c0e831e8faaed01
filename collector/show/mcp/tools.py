"""The tools: what each takes, asks of the REST API, and answers. None changes anything."""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from collector.concurrency.threads import run_in_thread
from collector.keep.run_ledger import RunState
from collector.show.mcp.answers import (
    Answer,
    DiagnosisAnswer,
    FoundOnNode,
    IncidentAnswer,
    IncidentsFound,
    KeptDiagnoses,
)
from collector.show.mcp.arguments import (
    Arguments,
    AspectWanted,
    DiagnosisWanted,
    HistoryWanted,
    IncidentsListed,
    IncidentWanted,
    JobsWanted,
    KeptWanted,
    LogsWanted,
    NodeWanted,
    Part,
    RanksWanted,
)
from collector.show.mcp.pages import Document, Page, not_a_cursor, page_of
from collector.show.mcp.rest import Rest, Tell, segment
from collector.show.routes.diagnoses import DiagnosisList
from collector.show.routes.incidents import IncidentList
from collector.show.routes.jobs import RunningJobs
from collector.show.views import ChecksView, ClassesView, LogsView, SequencesView, View
from shared.answer.diagnosis import Diagnosis
from shared.answer.incidents import Incident
from shared.errors import InvalidInput
from shared.value import Value

_LISTED = 50
"""Diagnoses or incidents that one page holds at most."""

_MOST_CULPRITS = 8
"""Of one incident in a list."""

_WHOLE = "some text is cut; the REST API has all of it"
_LATER = "it is being made: call get_diagnosis with this id in some seconds"
_NOW = "more is there: ask for fewer `ranks`, or call diagnose_job and pass its id as `diagnosis`, which has all pages"

V = TypeVar("V", bound=View)


class ReadingTool(NamedTuple):
    """One tool. `run` raises UnhangError."""

    name: str
    title: str
    description: str
    takes: type[Arguments]
    answers: type[Value]
    run: Callable[[Rest, Any, Tell], Awaitable[Document]]


async def _list_jobs(rest: Rest, wanted: JobsWanted, _: Tell) -> Document:
    """Jobs come and go between two pages: the cursor names the first that was not given."""
    found = await rest.get("/v1/jobs", RunningJobs)
    cursor, jobs = wanted.cursor, found.jobs
    if cursor is not None and cursor.startswith("from."):
        name, within = _split(cursor)
        first = _decoded(name)
        jobs = tuple(job for job in jobs if job.name >= first)
        is_there = bool(jobs) and jobs[0].name == first
        cursor = f"jobs.0{within}" if is_there and within else None
    page = await _paged(found.model_copy(update={"jobs": jobs}), cursor)
    following = page.next
    if following is not None and following.startswith("jobs."):
        at, within = _split(following)
        following = f"from.{_encoded(jobs[int(at)].name)}{within}"
    return Answer[RunningJobs](next=following, advice=_advice(page)).with_page(page.document)


async def _diagnose_job(rest: Rest, wanted: DiagnosisWanted, tell: Tell) -> Document:
    found = await rest.diagnose(wanted.job, wait_seconds=wanted.wait_seconds, tell=tell)
    return await _diagnosed(found, part=None, cursor=None)


async def _get_diagnosis(rest: Rest, wanted: KeptWanted, _: Tell) -> Document:
    return await _diagnosed(await rest.fetch(wanted.id), part=wanted.part, cursor=wanted.cursor)


async def _list_diagnoses(rest: Rest, wanted: HistoryWanted, _: Tell) -> Document:
    asked = {"job": wanted.job, "host": wanted.node, "before": wanted.cursor}
    found = await rest.get("/v1/diagnoses", DiagnosisList, limit=_LISTED, **asked)
    page = await _paged(found, None)
    given = page.document["diagnoses"]
    following = found.next if page.next is None else given[-1]["id"]
    return Answer[KeptDiagnoses](next=following, advice=_advice(page)).with_page({"diagnoses": given})


async def _list_incidents(rest: Rest, wanted: IncidentsListed, _: Tell) -> Document:
    asked = {"job": wanted.job, "host": wanted.node, "state": wanted.state, "kind": wanted.kind, "cause": wanted.cause}
    return await _incidents(rest, wanted.cursor, asked)


async def _get_incident(rest: Rest, wanted: IncidentWanted, _: Tell) -> Document:
    found = await rest.get(f"/v1/incidents/{segment(wanted.id)}", Incident)
    page = await _paged(found, wanted.cursor)
    answer = IncidentAnswer(id=found.id, state=found.state, next=page.next, advice=_advice(page))
    return answer.with_page(page.document)


async def _node_history(rest: Rest, wanted: NodeWanted, tell: Tell) -> Document:
    """Incidents are walked first: the cursor says which of the two lists it is in, and where."""
    part, _, cursor = (wanted.cursor or "incidents").partition(".")
    if part not in ("incidents", "diagnoses"):
        raise not_a_cursor(wanted.cursor)
    if part == "incidents":
        found = await _incidents(rest, cursor or None, {"host": wanted.node})
        following = "diagnoses" if found["next"] is None else f"incidents.{found['next']}"
        answer = Answer[FoundOnNode](next=following, advice=found["advice"])
        return answer.with_page({**found["untrusted"], "diagnoses": []})
    found = await _list_diagnoses(rest, HistoryWanted(node=wanted.node, cursor=cursor or None), tell)
    older = None if found["next"] is None else f"diagnoses.{found['next']}"
    answer = Answer[FoundOnNode](next=older, advice=found["advice"])
    return answer.with_page({**found["untrusted"], "incidents": []})


async def _incidents(rest: Rest, cursor: str | None, asked: dict[str, str | None]) -> Document:
    """Return a page of incidents, each short enough to be on one; get_incident has all of it."""
    found = await rest.get("/v1/incidents", IncidentList, before=cursor, limit=_LISTED, **asked)
    page = await _paged(found.model_copy(update={"incidents": tuple(map(_in_short, found.incidents))}), None)
    given = page.document["incidents"]
    following = found.next if page.next is None else given[-1]["id"]
    return Answer[IncidentsFound](next=following, advice=_advice(page)).with_page({"incidents": given})


def _in_short(incident: Incident) -> Incident:
    return incident.model_copy(update={"history": (), "culprits": incident.culprits[:_MOST_CULPRITS]})


async def _show_stacks(rest: Rest, wanted: RanksWanted, _: Tell) -> Document:
    return await _aspect(rest, wanted, "stacks", ClassesView, ranks=wanted.ranks, format="classes")


async def _show_sequences(rest: Rest, wanted: RanksWanted, _: Tell) -> Document:
    return await _aspect(rest, wanted, "sequences", SequencesView, ranks=wanted.ranks)


async def _show_logs(rest: Rest, wanted: LogsWanted, _: Tell) -> Document:
    return await _aspect(rest, wanted, "logs", LogsView, ranks=wanted.ranks, lines=wanted.lines)


async def _check_job(rest: Rest, wanted: AspectWanted, _: Tell) -> Document:
    return await _aspect(rest, wanted, "check", ChecksView)


async def _aspect(
    rest: Rest, wanted: AspectWanted, path: str, model: type[V], **parameters: str | int | None
) -> Document:
    """Return a page of one aspect. Of what is looked at now there is only the first: the next look differs."""
    if wanted.cursor is not None and wanted.diagnosis is None:
        raise InvalidInput("a look at the job as it is now has one page", advice=_NOW)
    route = f"/v1/jobs/{segment(wanted.job)}/{path}"
    page = await _paged(await rest.get(route, model, diagnosis=wanted.diagnosis, **parameters), wanted.cursor)
    if page.next is not None and wanted.diagnosis is None:
        return Answer[View](advice=_NOW).with_page(page.document)
    return Answer[View](next=page.next, advice=_advice(page)).with_page(page.document)


async def _diagnosed(found: Diagnosis | RunState, *, part: Part | None, cursor: str | None) -> Document:
    if isinstance(found, RunState):
        return DiagnosisAnswer(id=found.id, status="running", step=found.step, advice=_LATER).with_page(None)
    others = [each for each in Part if part is not None and each is not part]
    empty = Diagnosis(verdict=found.verdict, headline="")
    page = await _paged(found.model_copy(update={each.value: getattr(empty, each) for each in others}), cursor)
    answer = DiagnosisAnswer(id=found.id, status="ready", verdict=found.verdict, next=page.next, advice=_advice(page))
    return answer.with_page(page.document)


async def _paged(value: Value, cursor: str | None) -> Page:
    return await run_in_thread(lambda: page_of(value.model_dump(mode="json", by_alias=True), cursor))


def _advice(page: Page) -> str:
    return _WHOLE if page.shortened else ""


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


TOOLS = (
    ReadingTool(
        "list_jobs",
        "List jobs",
        "Lists the distributed training jobs that run now: their names, ranks, hosts and absent ranks.",
        JobsWanted,
        Answer[RunningJobs],
        _list_jobs,
    ),
    ReadingTool(
        "diagnose_job",
        "Diagnose a job",
        (
            "Finds the rank that hangs a job, where it is and what proves it, by looking at all its ranks now. Takes "
            "seconds, up to two minutes where only time distinguishes slow from stuck. Act alone only on a finding "
            "whose `certainty` is `proven`; ask a person about the others. A finding of kind `held_up` is no hang: "
            "others wait for a rank that works, and `hung_from` says when to ask again."
        ),
        DiagnosisWanted,
        DiagnosisAnswer,
        _diagnose_job,
    ),
    ReadingTool(
        "get_diagnosis",
        "Get a diagnosis",
        "Returns a diagnosis that was made, or how far it is; all of it, or one of its lists.",
        KeptWanted,
        DiagnosisAnswer,
        _get_diagnosis,
    ),
    ReadingTool(
        "list_diagnoses",
        "List kept diagnoses",
        "Lists kept diagnoses, newest first: the history of all jobs, of one job, or of one node.",
        HistoryWanted,
        Answer[KeptDiagnoses],
        _list_diagnoses,
    ),
    ReadingTool(
        "list_incidents",
        "List incidents",
        (
            "Lists jobs that the collector found hung or dead by itself, newest first: all, or of one job or one node. "
            f"Each is without its history and with {_MOST_CULPRITS} culprits at most; get_incident has all."
        ),
        IncidentsListed,
        Answer[IncidentsFound],
        _list_incidents,
    ),
    ReadingTool(
        "get_incident",
        "Get an incident",
        "Returns one incident with its history: what was found, who has acknowledged it, when it was over.",
        IncidentWanted,
        IncidentAnswer,
        _get_incident,
    ),
    ReadingTool(
        "node_history",
        "History of a node",
        (
            "Lists the incidents whose culprits ran on a node, then the diagnoses that name it. Its hardware "
            "deserves a look only if the causes repeat that hardware can have: gpu_fault, network, device_sync, "
            "communication, filesystem."
        ),
        NodeWanted,
        Answer[FoundOnNode],
        _node_history,
    ),
    ReadingTool(
        "show_stacks",
        "Show stacks",
        "Groups the ranks of a job by their stacks: which ranks are at which place in the code.",
        RanksWanted,
        Answer[ClassesView],
        _show_stacks,
    ),
    ReadingTool(
        "show_sequences",
        "Show sequences",
        (
            "Shows per process group which collective each rank has issued and completed, and who is behind. "
            "Needs flight records."
        ),
        RanksWanted,
        Answer[SequencesView],
        _show_sequences,
    ),
    ReadingTool(
        "show_logs",
        "Show logs",
        "Shows the last log lines of each rank, and the lines that were recognised. Secrets are redacted.",
        LogsWanted,
        Answer[LogsView],
        _show_logs,
    ),
    ReadingTool(
        "check_job",
        "Check how a job was started",
        "Lists what is wrong or risky in how a job was started, and what to change. It need not hang.",
        AspectWanted,
        Answer[ChecksView],
        _check_job,
    ),
)
"""In the order in which they are listed."""
