"""The jobs that the agents see."""

from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field

from collector.agents.pods_of_ranks import JobPod, pods_of
from collector.align.expected import Unanswered
from collector.gather.asked import RankLists
from collector.gather.jobs import JobSummary, choose_job, summarise_jobs, unread_by
from collector.gather.namesakes import lists_apart, user_of
from collector.keep.store import Listed
from collector.service import Service
from collector.show.routes.common import JobName, ServiceDependency, json_answer
from collector.show.routes.rights import SightDependency
from shared.answer.incidents import JobState, WatchedJob
from shared.errors import NotFound, quoted
from shared.server.problem_handlers import problems
from shared.value import Value
from shared.wire.job_names import plain_name
from shared.wire.snapshot import Exited, Identity

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
last_router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], responses=problems(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
)
"""Its one route takes every path that begins so: it must be added after all others."""


class RunningJobs(Value):
    """The jobs that run now, by name."""

    jobs: tuple[JobSummary, ...]
    unanswered: tuple[Unanswered, ...] = Field(
        default=(), description="Agents that did not answer: jobs on their nodes may be missing here."
    )
    unread: tuple[str, ...] = Field(
        default=(), description="What agents could not read, and launchers that wait: jobs that may be missing here."
    )


class JobDetail(Value):
    """One job, rank by rank."""

    job: JobSummary
    ranks: tuple[Identity, ...] = Field(description="The ranks that run, left-overs of older attempts included.")
    exited: tuple[Exited, ...] = Field(default=(), description="Ranks known to have ended.")
    diagnoses: tuple[Listed, ...] = Field(default=(), description="Its latest diagnoses, newest first.")
    unanswered: tuple[Unanswered, ...] = ()
    pods: tuple[JobPod, ...] = Field(
        default=(), description="Pods of Kubernetes in which its ranks run, where the collector may list them."
    )
    nodes: tuple[str, ...] = Field(default=(), description="The nodes that Slurm gave it, where Slurm is asked.")


@router.get("", response_model=RunningJobs, summary="List the jobs")
async def list_jobs(service: ServiceDependency, sight: SightDependency) -> Response:
    """Ask every agent which ranks it sees, within five seconds, and put the jobs together from that."""
    found = sight.lists(await service.find())
    lists = tuple(found.lists.values())
    jobs = tuple(_with_state(job, service, found) for job in summarise_jobs(lists))
    return json_answer(RunningJobs(jobs=jobs, unanswered=_unanswered(found), unread=unread_by(lists)))


@last_router.get("/{job:path}", response_model=JobDetail, summary="Describe one job")
async def describe_job(job: JobName, service: ServiceDependency, sight: SightDependency) -> Response:
    """Tell where each rank of the job is, and what was diagnosed lately. 404 where no agent knows the job."""
    found = sight.lists(await service.find())
    job = choose_job(job, found.lists.values(), some_silent=False) or job
    lists = lists_apart(found.lists.values(), job, user_of(job, found.lists.values()))
    summary = next((each for each in summarise_jobs(lists) if each.name == job), None)
    if summary is None:
        raise NotFound(f"of the job {quoted(job)} only nameless processes are left, which have ended")
    ranks = [rank for each in lists for rank in each.ranks if rank.job == job]
    exited = [
        gone
        for each in lists
        for gone in each.exited
        if job in gone.sibling_jobs or (gone.identity is not None and gone.identity.job == job)
    ]
    detail = JobDetail(
        job=_with_state(summary, service, found),
        ranks=tuple(sorted(ranks, key=lambda rank: (rank.rank, rank.attempt, rank.pid or 0))),
        exited=tuple(exited),
        diagnoses=await service.async_store.ask(service.store.list, job=job, limit=10, seen_by=sight.access),
        unanswered=_unanswered(found),
        pods=pods_of(ranks, service.inventory.pods),
        nodes=tuple(sorted(service.inventory.nodes_of(plain_name(job)) or ())),
    )
    return json_answer(detail)


def _with_state(job: JobSummary, service: Service, found: RankLists) -> JobSummary:
    watched = None if service.watcher is None else service.watcher.state_of(job.name, job.user)
    if watched is None:
        return job
    return job.model_copy(update={"state": state_now(job, watched, found), "incident": watched.incident})


def state_now(job: JobSummary, watched: WatchedJob, found: RankLists) -> JobState:
    """Return its state as a diagnosis made now would tell it: agents know of an end before their digests tell it.

    Where some did not answer, ranks may run on their nodes.
    """
    return watched.state if job.state is None or found.silent else job.state


def _unanswered(found: RankLists) -> tuple[Unanswered, ...]:
    return tuple(silent.unanswered() for silent in found.silent)
