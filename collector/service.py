"""The collector at work: its agents, its store and the diagnoses that it is making, in one value that the API uses."""

import logging
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx

from collector.agents.add_places import Known, join
from collector.agents.directory import Directory, SourceMetrics
from collector.agents.from_settings import make_directory
from collector.agents.pods_of_ranks import namespaces_of
from collector.agents.registration.registered import Registrant
from collector.agents.registration.registered_store import shared_leases
from collector.concurrency.gc_pauses import Garbage
from collector.concurrency.threads import run_in_thread
from collector.gather.asked import RankLists
from collector.gather.debug_one_rank import look_closely
from collector.gather.fanout.fanout import Fanout, make_client
from collector.gather.fanout.values import Silent
from collector.gather.judge_and_stamp import kept_as, new_id, rfc3339
from collector.gather.plan import Gathered
from collector.gather.sweep import find, gather, sweep
from collector.gather.swept import Sweep
from collector.gather.watched_agents import NOBODY_WATCHES, WatchedAgents
from collector.hostlists import AgentAddress
from collector.keep.async_store import AsyncStore
from collector.keep.database import StoreTrouble
from collector.keep.run_ledger import RunState
from collector.keep.runs import Run, Runs
from collector.keep.store import Retention, Store, no_such_diagnosis
from collector.metrics import Counters
from collector.notify.metrics import NotifyMetrics
from collector.notify.notifier import Notifier, notifying
from collector.notify.notify_file import read_notify_file
from collector.question import Question, Step
from collector.settings import CollectorSettings
from collector.watcher import Watcher, WatchMetrics, digest_seconds_of, watching
from shared.answer.diagnosis import Diagnosis, NextStep
from shared.errors import quoted
from shared.server.tls import ClientTls, TlsFiles
from shared.server.tokens import TokenFile, require_token
from shared.wire.debug_output import DeepLook, How
from shared.wire.job_names import is_of
from shared.wire.registration import Lease, NodeDigest
from shared.wire.snapshot import RankList

_log = logging.getLogger(__name__)

_FORGET_AFTER = 200_000
"""Agents whose last list of ranks is remembered; a bound, should addresses keep changing."""

_UNKEPT = 16
"""Diagnoses that the store did not take, for those who come for them; a bound on memory."""

_UNASKED_SECONDS = 60.0
"""Between two looks at how far an unasked diagnosis is; it ends by the deadline of its question."""

_NOT_KEPT = NextStep(text="save this answer: the collector's store failed, so the diagnosis is not kept")


class Service:
    """What lives as long as the application: made by its lifespan, handed to its routes."""

    def __init__(
        self,
        settings: CollectorSettings,
        *,
        inventory: Directory,
        store: Store,
        client: httpx.AsyncClient,
    ) -> None:
        self.settings = settings
        self.inventory = inventory
        self.store = store
        self.async_store = AsyncStore(store)
        self.may_register = require_token(settings.registration_token_file)
        self.counters = Counters()
        self.counters.include(SourceMetrics(inventory))
        self.runs = Runs(self._make, self.async_store)
        self.watcher = Watcher(self.async_store, self._diagnose_unasked) if settings.watches else None
        self.counters.include(WatchMetrics(self.watcher))
        notify_file = None if settings.notify_file is None else read_notify_file(settings.notify_file)
        self.notifier = None if notify_file is None else Notifier(self.async_store, notify_file)
        self.counters.include(NotifyMetrics(self.notifier))
        self._unkept: OrderedDict[str, Diagnosis] = OrderedDict()
        self._client = client
        self._fanout = Fanout(
            client,
            most_at_once=settings.most_at_once,
            on_silence=self._count_silence,
            on_again=self.counters.asked_again,
            on_second_answer=self.counters.answered_again,
        )
        self._garbage = Garbage()
        self._lists: dict[str, RankList] = {}

    def question(self, job: str | None, *, patience: float = float("inf")) -> Question:
        """Return the question about `job` as the settings would have it."""
        return Question(
            job=job,
            looks=self.settings.looks,
            interval_seconds=self.settings.interval_seconds,
            deadline_seconds=self.settings.deadline_seconds,
            patience_seconds=min(patience, self.settings.patience_seconds),
            survey_above=self.settings.survey_above,
        )

    async def start(self, question: Question, *, asked: bool = True, keep: bool = True) -> Run:
        """Start a diagnosis, or join the one under way for the same job, here or at a replica. Raises Busy."""
        now = time.time_ns()
        run = Run(id=new_id(now), question=question, started_at=rfc3339(now), asked=asked, keep=keep)
        return await self.runs.start(run)

    @property
    def digest_seconds(self) -> float | None:
        """How often agents are to tell how far their ranks are; None: nobody wants to know."""
        leases = self.inventory.leases
        return None if self.watcher is None or leases is None else digest_seconds_of(leases.here)

    def renew(self, address: AgentAddress, digest: NodeDigest | None, *, by: Registrant | None = None) -> Lease:
        """Register an agent, and take in what it tells of its ranks. Raises NotPermitted where there are too many."""
        leases = self.inventory.leases
        assert leases is not None
        leases.renew(address, by=by)
        if digest is not None and self.watcher is not None:
            self.watcher.take(address.host, digest)
        return Lease(
            host=address.host, url=address.url, lease_seconds=leases.seconds, digest_seconds=self.digest_seconds
        )

    async def _diagnose_unasked(self, job: str, patience: float) -> Diagnosis:
        run = await self.start(self.question(job, patience=patience), asked=False)
        while (diagnosis := await run.within(_UNASKED_SECONDS)) is None:
            pass
        return diagnosis

    async def fetch(self, id: str) -> Diagnosis | RunState:
        """Return a diagnosis, or how far it is. Raises NotFound, what ended its run, and StoreTrouble."""
        run = self.runs.find(id)
        if run is not None:
            return run.state
        if id in self._unkept:
            return self._unkept[id]
        found = await self.async_store.ask(self.store.whereabouts, id)
        if found is None:
            raise no_such_diagnosis(id)
        return found

    async def find(self) -> RankLists:
        """Ask all agents which ranks are on their nodes."""
        agents = self.inventory.addresses()
        found = await find(agents, self._fanout, deadline_seconds=min(5.0, self.settings.deadline_seconds))
        self._remember(found.lists)
        return found

    async def look(self, question: Question) -> Gathered:
        """Look at a job without judging it. Raises NotFound."""
        gathered = await gather(
            question, self.inventory.addresses(), self._fanout, earlier=self._lists, nodes_of=self.inventory.nodes_of
        )
        self._remember(gathered.lists)
        return gathered

    async def look_closely(
        self, job: str, rank: int, how: How, *, seconds: float, child: int | None = None
    ) -> DeepLook:
        """Have one rank, or a child process of it, looked at closely. Raises NotFound or Unreachable."""
        agents = self.inventory.addresses()
        return await look_closely(job, rank, how, agents, self._client, seconds=seconds, child=child)

    async def _make(self, run: Run) -> Diagnosis:
        with self._garbage.left_lying():
            return await self._sweep_and_keep(run)

    async def _sweep_and_keep(self, run: Run) -> Diagnosis:
        def note(step: Step) -> None:
            run.step = step

        try:
            made = await sweep(
                run.question,
                self.inventory.addresses(),
                self._fanout,
                progress=note,
                earlier=self._lists,
                nodes_of=self.inventory.nodes_of,
                watched=await self._watched(run),
            )
            made = await run_in_thread(join, made, Known.of(self.inventory, made.diagnosis.job))
            diagnosis = await self._keep(made, run)
        except BaseException:
            self.counters.diagnosis_failed()
            raise
        self._remember(made.lists)
        self.counters.diagnosis_made(diagnosis)
        _log.info(
            "diagnosis %s of %s: %s after %.1f s, %d agents silent",
            diagnosis.id,
            quoted(str(diagnosis.job)),
            diagnosis.verdict,
            diagnosis.took_seconds,
            len(made.expected.unanswered),
        )
        return diagnosis

    async def _watched(self, run: Run) -> WatchedAgents:
        """Return what agents have told unasked.

        Few looks are for who asks and waits: an alarm is the same finding twice, and rests on looks at all. They do not
        show in which namespaces all ranks run, on which it depends who may see the diagnosis.
        """
        leases, job = self.inventory.leases, run.question.job
        if leases is None:
            return NOBODY_WATCHES
        few = run.asked and self.watcher is not None and job is not None and not self.inventory.pods
        if self.watcher is None or not job:
            return WatchedAgents(leases.live())
        reported, usual = self.watcher.reported(job) if few else None, self.watcher.usual_pause(job)
        hung = await self.watcher.found_hung(job)
        return WatchedAgents(leases.live(), reported, usual, self.watcher.faulty_hosts, hung)

    async def _keep(self, made: Sweep, run: Run) -> Diagnosis:
        """Keep the diagnosis under its id. If the store fails, the caller gets it nevertheless, with a note."""
        id, looks = run.id, made.snapshots
        if not run.keep:
            return self._remembered(made.diagnosis.model_copy(update={"id": id}))
        diagnosis = kept_as(made.diagnosis, id)
        try:
            await self.async_store.keep(
                self.store.save,
                diagnosis,
                made.expected,
                looks,
                packed=made.packed,
                asked=run.asked,
                namespaces=self._namespaces_of(made),
            )
        except StoreTrouble as trouble:
            _log.error("diagnosis %s is not kept: %s", id, trouble)
            self.counters.diagnosis_not_kept()
            unkept = {"id": id, "next_steps": (*diagnosis.next_steps, _NOT_KEPT)}
            return self._remembered(made.diagnosis.model_copy(update=unkept))
        return diagnosis

    def _remembered(self, diagnosis: Diagnosis) -> Diagnosis:
        """Have it for a moment without the store, for whoever asks for its id."""
        self._unkept[diagnosis.id] = diagnosis
        while len(self._unkept) > _UNKEPT:
            self._unkept.popitem(last=False)
        return diagnosis

    def _namespaces_of(self, made: Sweep) -> frozenset[str]:
        """Return where all pods of the job run; nothing where that of one rank is not known."""
        job, user = made.diagnosis.job, made.diagnosis.user
        seen = (rank.identity for look in made.snapshots for rank in look.ranks)
        ranks = (identity for identity in seen if job is None or is_of(identity, job, user))
        found = namespaces_of(ranks, self.inventory.pods)
        known = frozenset(namespace for namespace in found if namespace is not None)
        return known if len(known) == len(found) else frozenset()

    @property
    def remembered(self) -> Mapping[str, RankList]:
        """The lists of ranks that agents gave last, by their URLs."""
        return self._lists

    def _remember(self, lists: Mapping[str, RankList]) -> None:
        if len(self._lists) > _FORGET_AFTER:
            self._lists.clear()
        self._lists.update(lists)

    def _count_silence(self, silent: Silent) -> None:
        self.counters.agent_silent(silent.missing)


class AgentToken(httpx.Auth):
    """Sends the agents' token, as its file holds it at that moment."""

    def __init__(self, file: Path) -> None:
        self._tokens = TokenFile(file)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token, if there is one: without, the agent says what is wrong."""
        tokens = self._tokens.tokens()
        if tokens:
            request.headers["Authorization"] = "Bearer " + tokens[0].decode("latin-1")
        yield request


@asynccontextmanager
async def open_service(
    settings: CollectorSettings,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    mounts: Mapping[str, httpx.AsyncBaseTransport | None] | None = None,
) -> AsyncIterator[Service]:
    """Open what the service needs, and close it in the end. Raises InvalidSettings."""
    inventory = make_inventory(settings)
    auth = None if settings.agent_token_file is None else AgentToken(settings.agent_token_file)
    retention = Retention(
        most_diagnoses=settings.keep_diagnoses,
        most_unasked=settings.keep_unasked_diagnoses,
        most_days=settings.keep_days,
        most_bytes=settings.keep_bytes,
    )
    store = await run_in_thread(
        partial(Store, settings.store, retention=retention, lease_seconds=settings.lease_seconds)
    )
    try:
        async with make_client(
            auth=auth,
            tls=agent_tls(settings),
            transport=transport,
            mounts=mounts,
            most_at_once=settings.most_at_once,
        ) as client:
            service = Service(settings, inventory=inventory, store=store, client=client)
            async with (
                inventory.kept_fresh(),
                shared_leases(inventory.leases, store.registrations),
                watching(service.watcher),
                notifying(service.notifier),
            ):
                yield service
            await service.runs.stop()
            await service.async_store.close()
    finally:
        await run_in_thread(store.close)


def agent_tls(settings: CollectorSettings) -> ClientTls | None:
    """Return the TLS towards agents that the settings ask for. Raises InvalidSettings."""
    files = TlsFiles(settings.agent_cert_file, settings.agent_key_file, settings.agent_ca_file)
    return ClientTls(files) if files.named else None


def make_inventory(settings: CollectorSettings) -> Directory:
    """Return the agents that the settings name, and where more are learnt of. Raises InvalidSettings."""
    return make_directory(settings, os.environ)
