"""Who may have what of the API: every route has a rule here, and one without is for nobody who is bound.

1. A rule says whether callers that see some jobs only may ask at all, and whether one must be allowed to look.
2. What such a caller gets is cut where it is made: lists by the store, what agents tell by `Sight`.
3. A job, diagnosis or incident that a caller may not know of is answered as if there were none (404), in equal words.
4. A bound caller's question goes to the agents with the job's owner in its name, so that nobody else's job of the same
   name can come into the answer.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated

from fastapi import Depends, Request

from collector.agents.pods_of_ranks import namespaces_of
from collector.gather.asked import RankLists
from collector.gather.jobs import choose_job
from collector.gather.namesakes import user_of
from collector.keep.run_ledger import RunState
from collector.keep.store import no_such_diagnosis
from collector.keep.watched.incident_rows import no_such_incident
from collector.service import Service
from collector.show.routes.common import ServiceDependency
from shared.answer.diagnosis import Diagnosis
from shared.answer.incidents import NewSilence, Silence, WatchedJob
from shared.errors import NotFound, NotPermitted, UnhangError, quoted
from shared.server.access import Access
from shared.server.tokens import access_of
from shared.wire.job_names import OF_SLURM, goes_by, plain_name, qualified
from shared.wire.snapshot import Exited, Identity, NodeSnapshot, RankList


class Rule(StrEnum):
    """Who may ask."""

    CUT = "cut"
    """Everybody; the answer holds what the caller may know of."""
    LOOKS = "looks"
    """The same, for those who may have jobs looked at or say something to incidents."""
    ALL_JOBS = "all_jobs"
    """Callers that see all jobs: what is told is about all of them."""
    ALL_JOBS_LOOKS = "all_jobs_looks"
    """The same, for those who may change something."""


RULES: Mapping[tuple[str, str], Rule] = {
    ("GET", "/"): Rule.CUT,
    ("POST", "/jobs/{job:path}/diagnose"): Rule.LOOKS,
    ("GET", "/diagnoses"): Rule.CUT,
    ("GET", "/diagnoses/{id}"): Rule.CUT,
    ("GET", "/compare"): Rule.CUT,
    ("GET", "/incidents"): Rule.CUT,
    ("GET", "/incidents/{id}"): Rule.CUT,
    ("POST", "/incidents/{id}/acknowledge"): Rule.LOOKS,
    ("POST", "/incidents/{id}/comment"): Rule.LOOKS,
    ("POST", "/incidents/{id}/false-alarm"): Rule.LOOKS,
    ("POST", "/incidents/{id}/silence"): Rule.LOOKS,
    ("POST", "/incidents/{id}/unsilence"): Rule.LOOKS,
    ("GET", "/preflights"): Rule.ALL_JOBS,
    ("POST", "/logout"): Rule.CUT,
    ("GET", "/metrics"): Rule.ALL_JOBS,
    ("GET", "/v1/agents"): Rule.ALL_JOBS,
    ("PUT", "/v1/agents/{host}"): Rule.ALL_JOBS_LOOKS,
    ("GET", "/v1/jobs"): Rule.CUT,
    ("GET", "/v1/jobs/{job:path}"): Rule.CUT,
    ("POST", "/v1/jobs/{job:path}/diagnoses"): Rule.LOOKS,
    ("GET", "/v1/diagnoses"): Rule.CUT,
    ("GET", "/v1/diagnoses/{id}"): Rule.CUT,
    ("GET", "/v1/diagnoses/{id}/bundle"): Rule.CUT,
    ("GET", "/v1/jobs/{job:path}/stacks"): Rule.CUT,
    ("GET", "/v1/jobs/{job:path}/check"): Rule.CUT,
    ("GET", "/v1/jobs/{job:path}/fds"): Rule.CUT,
    ("GET", "/v1/jobs/{job:path}/logs"): Rule.CUT,
    ("GET", "/v1/jobs/{job:path}/sequences"): Rule.CUT,
    ("GET", "/v1/jobs/{job:path}/ranks/{rank}/deep"): Rule.LOOKS,
    ("GET", "/v1/watched-jobs"): Rule.CUT,
    ("GET", "/v1/watched-jobs/{job:path}/health"): Rule.CUT,
    ("GET", "/v1/incidents"): Rule.CUT,
    ("GET", "/v1/incidents/{id}"): Rule.CUT,
    ("POST", "/v1/incidents/{id}/acknowledge"): Rule.LOOKS,
    ("POST", "/v1/incidents/{id}/comment"): Rule.LOOKS,
    ("POST", "/v1/incidents/{id}/false-alarm"): Rule.LOOKS,
    ("GET", "/v1/events"): Rule.CUT,
    ("GET", "/v1/silences"): Rule.CUT,
    ("POST", "/v1/silences"): Rule.LOOKS,
    ("GET", "/v1/silences/{id}"): Rule.CUT,
    ("DELETE", "/v1/silences/{id}"): Rule.LOOKS,
    ("GET", "/v1/preflights"): Rule.ALL_JOBS,
    ("POST", "/v1/preflights"): Rule.ALL_JOBS_LOOKS,
    ("GET", "/v1/preflights/{id}"): Rule.ALL_JOBS,
    ("GET", "/v1/deliveries"): Rule.ALL_JOBS,
}


async def check_rule(request: Request) -> None:
    """Hold a request against the rule of its route. Raises NotPermitted."""
    access = access_of(request)
    path = getattr(request.scope.get("route"), "path", "")
    rule = RULES.get((request.method, path), Rule.ALL_JOBS_LOOKS)
    if access.is_bound and rule in (Rule.ALL_JOBS, Rule.ALL_JOBS_LOOKS):
        raise NotPermitted("this token is for the jobs of some users or namespaces", advice="ask with one for all jobs")
    if rule in (Rule.LOOKS, Rule.ALL_JOBS_LOOKS):
        _require_look(access)


def _require_look(access: Access) -> None:
    if not access.may_look:
        raise NotPermitted(
            "this token may read what was found, and nothing else", advice="ask with a token that may look"
        )


class Sight:
    """What one caller may know of."""

    def __init__(self, request: Request, service: ServiceDependency) -> None:
        self.access = access_of(request)
        self._service: Service = service

    def require_look(self) -> None:
        """Raises NotPermitted where the caller may only read what is kept."""
        _require_look(self.access)

    async def job(self, name: str) -> str:
        """Return how to ask agents for a job. Raises NotFound where the caller may not know of it, or nobody does."""
        if not self.access.is_bound:
            return name
        found = await self._service.find()
        lists = self.cut({**self._service.remembered, **found.lists})
        name = choose_job(name, lists, some_silent=False) or name
        return qualified(plain_name(name), user_of(name, lists))

    def check_looked(self, name: str, snapshots: Iterable[NodeSnapshot]) -> None:
        """Raise NotFound where a rank of another's job came into an answer after the job was found."""
        if self.access.is_bound:
            ranks = (rank.identity for snapshot in snapshots for rank in snapshot.ranks)
            if not all(self._sees(rank) for rank in ranks if goes_by(rank, name)):
                raise unknown_job(name)

    def unknown(self, name: str, error: UnhangError) -> UnhangError:
        """Return what ended a run as the caller may read it: what is said of an unknown job names others."""
        return unknown_job(name) if self.access.is_bound and isinstance(error, NotFound) else error

    def lists(self, found: RankLists) -> RankLists:
        """Return who is where, without the ranks of jobs that the caller may not know of."""
        if not self.access.is_bound:
            return found
        urls, lists = list(found.lists), self.cut(found.lists)
        return RankLists(dict(zip(urls, lists, strict=True)), found.silent)

    def cut(self, lists: Mapping[str, RankList]) -> tuple[RankList, ...]:
        """Return the lists, in their order, with the ranks alone that the caller may know of."""
        if not self.access.is_bound:
            return tuple(lists.values())
        mixed = self._in_other_namespaces(lists.values())
        return tuple(self._cut(found, mixed) for found in lists.values())

    def _cut(self, found: RankList, mixed: frozenset[tuple[str | None, str | None]]) -> RankList:
        ranks = tuple(rank for rank in found.ranks if self._sees(rank) and (rank.job, rank.user) not in mixed)
        exited = tuple(gone for gone in found.exited if self._sees_exited(gone, mixed))
        return found.model_copy(update={"ranks": ranks, "exited": exited, "missing": ()})

    def _in_other_namespaces(self, lists: Iterable[RankList]) -> frozenset[tuple[str | None, str | None]]:
        """Return the jobs some of whose ranks are elsewhere than the caller may see: nothing is told of those."""
        if self.access.namespaces is None:
            return frozenset()
        ranks = (rank for found in lists for rank in found.ranks)
        return frozenset((rank.job, rank.user) for rank in ranks if not self._sees(rank))

    def _sees(self, rank: Identity) -> bool:
        return self.access.sees(rank.user, namespaces_of((rank,), self._service.inventory.pods))

    def _sees_exited(self, gone: Exited, mixed: frozenset[tuple[str | None, str | None]]) -> bool:
        identity = gone.identity
        return identity is not None and self._sees(identity) and (identity.job, identity.user) not in mixed

    async def diagnosis(self, id: str) -> None:
        """Raise NotFound where the caller may not know of a kept diagnosis."""
        if self.access.is_bound:
            store = self._service.store
            if not await self._service.async_store.ask(store.is_seen_by, id, self.access):
                raise no_such_diagnosis(id)

    async def fetch(self, id: str) -> Diagnosis | RunState:
        """Return a diagnosis, or how far it is. Raises as the service does, and NotFound where none is to be known."""
        if not self.access.is_bound:
            return await self._service.fetch(id)
        try:
            found = await self._service.fetch(id)
        except NotFound:
            raise no_such_diagnosis(id) from None
        if isinstance(found, RunState):
            if not self.sees_run(found):
                raise no_such_diagnosis(id)
        elif not await self._sees_made(found):
            raise no_such_diagnosis(id)
        return found

    async def made(self, made: Diagnosis, name: str) -> None:
        """Raise NotFound where a diagnosis that was just made turns out not to be for the caller."""
        if self.access.is_bound and not await self._sees_made(made):
            raise unknown_job(name)

    async def _sees_made(self, made: Diagnosis) -> bool:
        store = self._service.store
        if await self._service.async_store.ask(store.is_seen_by, made.id, self.access):
            return True
        return self.access.namespaces is None and self.access.sees(made.user, ())  # one that the store did not take

    def sees_run(self, run: RunState) -> bool:
        """May the caller know of a run? Who is bound asks for a job with its owner: other names say nothing of one."""
        if not self.access.is_bound:
            return True
        ranks = (rank for found in self.cut(self._service.remembered) for rank in found.ranks)
        return any(rank.job is not None and qualified(rank.job, rank.user) == run.job for rank in ranks)

    def watched(self, jobs: Iterable[WatchedJob]) -> tuple[WatchedJob, ...]:
        """Return those of the watched jobs that the caller may know of."""
        if not self.access.is_bound:
            return tuple(jobs)
        if self.access.namespaces is None:
            return tuple(job for job in jobs if self.access.sees(job.user, ()))
        lists = self.cut(self._service.remembered)
        return tuple(job for job in jobs if any(_has(found, job) for found in lists))

    async def incident(self, id: str) -> None:
        """Raise NotFound where the caller may not know of an incident."""
        if self.access.is_bound and not await self.incidents((id,)):
            raise no_such_incident(id)

    async def incidents(self, ids: Iterable[str]) -> frozenset[str]:
        """Return which of these incidents the caller may know of."""
        return await self._service.async_store.ask(self._service.store.incidents.seen, tuple(ids), self.access)

    def sees_silence(self, silence: NewSilence | Silence) -> bool:
        """Is a silence about jobs of the caller's users alone: does a matcher name one of them?"""
        if not self.access.is_bound:
            return True
        if self.access.users is None or self.access.namespaces is not None:
            return False
        return any(
            each.name == "user" and each.isEqual and not each.isRegex and each.value in self.access.users
            for each in silence.matchers
        )

    def goes_by(self, made: Diagnosis, job: str) -> bool:
        """Is `job` a name of the job that a diagnosis is of, as this caller may write it?"""
        names = (job, f"{OF_SLURM}{job}")
        bound = (qualified(each, made.user) for each in names) if self.access.is_bound else ()
        return made.job in (*names, *bound)


def unknown_job(name: str) -> NotFound:
    """Return the error for a job that is not there, or that a caller may not know of: the same."""
    return NotFound(f"no agent knows job {quoted(name)}", advice="`GET /v1/jobs` lists those that this token may see")


def _has(found: RankList, job: WatchedJob) -> bool:
    return any(rank.user == job.user and goes_by(rank, job.job) for rank in found.ranks)


SightDependency = Annotated[Sight, Depends(Sight)]
