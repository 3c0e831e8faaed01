"""Nobody asks: an agent and a collector run, jobs hang, and their incidents stand with the right culprits."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from shared.rank_sets import unfold
from tests.build.processes import warm
from tests.build.processes.ports import free_port
from tests.build.processes.processes import until
from tests.build.processes.waiting import until_it_answers
from tests.build.services.incident_receivers import Received, ReceiverServer, served_receiver
from tests.system.e2e.hosts import container, only_child
from tests.system.live.jobs import Job
from tests.system.live.test_serving import engine
from tests.unit.collector.notify.files import SECRET, webhook_file

pytestmark = [pytest.mark.live, pytest.mark.steady, pytest.mark.ptrace, pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 240.0
"""On a busy machine. Without others on it an incident stands within a minute."""


class Services:
    """An agent that registers, and its collector."""

    def __init__(self, url: str, log: Path) -> None:
        self._log = log
        self._client = httpx.Client(base_url=url, timeout=60.0)

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """Ask the collector."""
        answer: dict[str, Any] = self._client.get(path, params=parameters).json()
        return answer

    def health(self, job: str) -> tuple[int, dict[str, Any]]:
        """Ask as a probe does."""
        answer = self._client.get(f"/v1/watched-jobs/{job}/health")
        return answer.status_code, answer.json()

    def until(self, job: Job, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until a job has an incident that is as it should be."""
        deadline = time.monotonic() + SECONDS
        while True:
            incidents = self.get("/v1/incidents", job=job.name)["incidents"]
            if incidents and holds(incidents[0]):
                found: dict[str, Any] = incidents[0]
                return found
            assert time.monotonic() < deadline, f"{incidents}\n{self.get('/v1/watched-jobs')}\n{self._log.read_text()}"
            time.sleep(0.5)

    def until_watched(self, job: Job) -> None:
        """Wait until the job's ranks are known, with their marks."""

        def is_known(jobs: list[dict[str, Any]]) -> bool:
            own = [each for each in jobs if (each["job"], each["ranks"]) == (job.name, "0-3")]
            return any(each["still_seconds"] is not None for each in own)

        until(lambda: self.get("/v1/watched-jobs")["jobs"], is_known, SECONDS)

    def close(self) -> None:
        """Ask no more."""
        self._client.close()


@contextmanager
def started(log: Path, *arguments: str) -> Iterator[None]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNHANG"))}
    with (
        log.open("ab") as output,
        warm.started(arguments, environment=environment, directory=log.parent, output=output.fileno()) as process,
    ):
        yield
        process.send_signal(signal.SIGTERM)
        process.wait(30.0)


@pytest.fixture(scope="module")
def receiver() -> Iterator[ReceiverServer]:
    """A webhook's server."""
    with served_receiver(ReceiverServer()) as server:
        yield server


@pytest.fixture(scope="module")
def beside() -> Iterator[int]:
    """A container with the agent and its jobs: those of other tests on this machine are none of its incidents."""
    with container() as first:
        yield first


@contextmanager
def started_beside(pid: int, log: Path, *arguments: str) -> Iterator[None]:
    """Run an agent in a container."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNHANG"))}
    with log.open("ab") as output:
        streams = (output.fileno(),) * 2
        outer = warm.start(arguments, environment=environment, streams=streams, beside=pid)
    try:
        yield
        os.kill(only_child(outer.pid), signal.SIGTERM)
        outer.wait(30.0)
    finally:
        outer.end()


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, receiver: ReceiverServer, beside: int) -> Iterator[Services]:
    """They search and beat more often than by default: that is not what takes its time here."""
    store = tmp_path_factory.mktemp("store") / "collector.sqlite3"
    store.parent.chmod(0o700)
    collector, agent = (f"127.0.0.1:{free_port()}" for _ in range(2))
    url, log = f"http://{collector}", store.with_name("log")
    serving = ("collector", "--listen", collector, "--registration-seconds", "60", "--store", str(store))
    often = ("--discover-seconds", "2", "--beat-seconds", "2")
    notify = str(webhook_file(store.parent, receiver.url, 'include = ["names", "headline", "stacks"]'))
    with (
        started(log, *serving, "--notify-file", notify),
        started_beside(beside, log, "agent", "--listen", agent, "--collectors", url, *often),
    ):
        found = Services(url, log)
        until_it_answers(f"{url}/healthz")
        until(lambda: found.get("/v1/agents")["agents"], bool, SECONDS)
        yield found
        found.close()


def test_a_probe_is_told_which_engine_is_stuck(services: Services, beside: int) -> None:
    """As a load balancer asks: 200 while it is idle and while it starts, 503 with the line once it hangs."""
    with engine(2, "nsenter", f"--target={beside}", "--user", "--pid", "--mount", "--") as served:
        until(lambda: services.health(served.job), lambda found: found[1]["state"] is not None, SECONDS)
        idle, _ = services.health(served.job)
        served.ask("/generate/lock_in_scheduler")
        status, told = until(lambda: services.health(served.job), lambda found: not found[1]["alive"], SECONDS)
        assert served.is_healthy() and (idle, status) == (200, 503)
    assert (
        "take_lock_twice" in told["why"]
        and told["since"] < services.get(f"/v1/incidents/{told['incident']}")["seen_at"]
    )
    unknown, told = services.health("nobody")
    assert (unknown, told["alive"], told["state"]) == (200, True, None)


def culprits(incident: dict[str, Any]) -> list[int]:
    """Ranks that an incident accuses."""
    return [culprit["rank"] for culprit in incident["culprits"]]


def test_jobs_that_hang_are_incidents_and_end(
    services: Services, receiver: ReceiverServer, beside: int, tmp_path: Path
) -> None:
    """One rank has not joined; and one whose ranks have all issued the same, and wait for each other.

    Of the first a webhook's server is told once within 75 seconds, with a signature; and that it is over.
    """
    with Job("asleep_before_collective", directory=tmp_path, recorded=True, forked=True, beside=beside) as asleep:
        hung_at = time.time()
        with Job("recv_ring", directory=tmp_path, recorded=True, forked=True, beside=beside) as ring:
            found = services.until(asleep, lambda _: bool(told_of(receiver, asleep)))
            assert (found["kind"], found["cause"], culprits(found)) == ("rank_not_joined", "user_code", [2])
            assert "wait_for_quota" in found["headline"]
            for diagnosis in found["diagnoses"]:
                assert services.get(f"/v1/diagnoses/{diagnosis}")["verdict"] == "hung"
            (first,) = told_of(receiver, asleep)
            data = first.json()["data"]
            told = (data["change"], data["kind"], data["ranks"], data["cause"], data["incident"])
            assert told == ("opened", "rank_not_joined", "2", "user_code", found["id"])
            assert "wait_for_quota" in data["stacks"][0]
            Webhook(SECRET).verify(first.body, first.headers)
            assert first.at - hung_at < 75.0
            assert services.until(ring, lambda _: True)["kind"] == "p2p_deadlock"
    for job in (asleep, ring):
        over = services.until(job, lambda incident: incident["state"] == "resolved")
        assert over["history"][-1]["note"] == "the job has died"
    both = until(lambda: told_of(receiver, asleep), lambda told: len(told) >= 2, SECONDS)
    assert [each.json()["data"]["change"] for each in both] == ["opened", "resolved"]


def told_of(receiver: ReceiverServer, job: Job) -> list[Received]:
    """What the receiver has been told of a job."""
    return [each for each in receiver.received if each.json()["data"]["names"]["job"] == job.name]


def test_job_that_a_killed_rank_takes_along_leaves_a_diagnosis(services: Services, beside: int, tmp_path: Path) -> None:
    """Nothing hangs any more when it is looked at; how each rank ended is kept."""
    with Job(
        "asleep_before_collective", directory=tmp_path, recorded=True, forked=True, beside=beside, launch="direct"
    ) as job:
        services.until_watched(job)
        os.kill(job.outside()[2], signal.SIGKILL)
        kept = until(lambda: services.get("/v1/diagnoses", job=job.name)["diagnoses"], bool, SECONDS)
        assert services.get(f"/v1/diagnoses/{kept[0]['id']}")["coverage"]["expected"] == 4


def test_job_that_is_killed_as_a_whole_is_an_incident(services: Services, beside: int, tmp_path: Path) -> None:
    """It trained, and all its ranks got SIGKILL: the incident says what each did last, and stands."""
    with Job("healthy", directory=tmp_path, recorded=True, forked=True, beside=beside, launch="direct") as job:
        services.until_watched(job)
        for pid in job.outside().values():
            os.kill(pid, signal.SIGKILL)
        found = services.until(job, lambda _: True)
    assert (found["kind"], found["cause"], found["job_ended"], culprits(found)) == ("rank_exited", "signal", True, [])
    assert found["died"] and found["headline"].startswith("Died: ranks 0-3 were killed by signal 9 (SIGKILL); ")
    (kept,) = found["diagnoses"]
    diagnosis = services.get(f"/v1/diagnoses/{kept}")
    assert (diagnosis["verdict"], diagnosis["findings"][0]["ended"]) == ("died", "0-3")
    last = [each for each in diagnosis["findings"][0]["evidence"] if each["kind"] == "sequence"]
    assert {rank for each in last for rank in unfold(each["ranks"])} == {0, 1, 2, 3}
    assert all("all_reduce #" in each["text"] for each in last)
    time.sleep(10.0)
    assert services.get(f"/v1/incidents/{found['id']}")["state"] == "opened"
    for kind in ("jobs", "watched-jobs"):
        states = {each.get("name", each.get("job")): each["state"] for each in services.get(f"/v1/{kind}")["jobs"]}
        assert states[job.name] == "died", kind


def test_diagnosis_is_kept_before_the_jobs_own_timeout_ends_it(services: Services, beside: int, tmp_path: Path) -> None:
    """Operations may take 60 s: then the ranks that wait raise, and the launcher ends the other one."""
    environment = {"UNHANG_TEST_TIMEOUT": "60"}
    with Job(
        "asleep_before_collective",
        directory=tmp_path,
        recorded=True,
        forked=True,
        beside=beside,
        environment=environment,
    ) as job:
        begun = time.time()
        found = services.until(job, lambda _: True)
        assert (found["kind"], culprits(found)) == ("rank_not_joined", [2])
        over = services.until(job, lambda incident: incident["state"] == "resolved")
        assert over["history"][-1]["note"] == "the job has died" and time.time() - begun < SECONDS
        first = services.get(f"/v1/diagnoses/{over['diagnoses'][0]}")
        assert (first["verdict"], first["findings"][0]["culprits"][0]["rank"]) == ("hung", 2)
        assert first["findings"][0]["lasted_seconds"] < 60.0


ENDS: dict[str, tuple[str, tuple[int, ...], int]] = {
    "a rank is killed": ("direct", (2,), signal.SIGKILL),
    "all ranks are killed": ("direct", (0, 1, 2, 3), signal.SIGKILL),
    "a watchdog aborts a waiting rank, and the launcher ends the rest": ("torchrun", (0,), signal.SIGABRT),
}
"""How a job that hangs may die: how it was launched, and who gets which signal."""
FOLLOWS_SECONDS = 40.0
"""How a job ended makes the collector look for 25 seconds."""


def test_job_that_dies_while_its_incident_is_open_is_one_incident(
    services: Services, receiver: ReceiverServer, beside: int, tmp_path: Path
) -> None:
    """However it dies: the receiver is told of the alarm and of the end, once each, and of nothing that follows."""
    with ExitStack() as stack:
        jobs: dict[str, Job] = {}
        for how, (launch, _, _) in ENDS.items():
            job = Job(
                "asleep_before_collective",
                directory=tmp_path,
                recorded=True,
                forked=True,
                beside=beside,
                launch=launch,
            )
            jobs[how] = stack.enter_context(job)
        for job in jobs.values():
            services.until(job, lambda incident: bool(incident["state"] == "opened"))
        for how, job in jobs.items():
            pids, (_, ranks, with_signal) = job.outside(), ENDS[how]
            for rank in ranks:
                os.kill(pids[rank], with_signal)
        for job in jobs.values():
            services.until(job, lambda incident: bool(incident["state"] == "resolved"))
        time.sleep(FOLLOWS_SECONDS)
        for how, job in jobs.items():
            (found,) = services.get("/v1/incidents", job=job.name)["incidents"]
            assert (found["kind"], found["state"], found["died"]) == ("rank_not_joined", "resolved", False), how
            assert found["history"][-1]["note"] == "the job has died"
            assert services.get(f"/v1/diagnoses/{found['diagnoses'][-1]}")["verdict"] == "died", how
            told = [each.json()["data"] for each in told_of(receiver, job)]
            assert [each["change"] for each in told] == ["opened", "resolved"], how
            assert told[-1]["summary"].startswith(f"Resolved (the job has died): {job.name}: rank 2 has not joined ")


@contextmanager
def frozen_together(pids: list[int]) -> Iterator[None]:
    """Freeze processes by one cgroup of their own, as `docker pause` does with a container."""
    tree = next((each for each in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/freezer")) if _can_freeze(each)), None)
    if tree is None:
        pytest.skip("no cgroup may be made here")
    before = {pid: _cgroup_of(pid, tree) for pid in pids}
    group = tree / f"unhang-test-{os.getpid()}"
    group.mkdir()
    switch, off, on = ("cgroup.freeze", "0", "1") if tree.name == "cgroup" else ("freezer.state", "THAWED", "FROZEN")
    try:
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        (group / switch).write_text(on)
        yield
    finally:
        (group / switch).write_text(off)
        for pid, earlier in before.items():
            with suppress(OSError):
                (earlier / "cgroup.procs").write_text(str(pid))
        until(lambda: (group / "cgroup.procs").read_text(), lambda inside: not inside, 10.0)
        group.rmdir()


def _can_freeze(tree: Path) -> bool:
    kind = "freezer.state" if tree.name == "freezer" else "cgroup.freeze"
    probe = tree / f"unhang-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        return False
    found = (probe / kind).exists()
    probe.rmdir()
    return found


def _cgroup_of(pid: int, tree: Path) -> Path:
    controller = "freezer" if tree.name == "freezer" else ""
    rows = (line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    return next(tree / path.lstrip("/") for _, controllers, path in rows if controllers == controller)


def test_two_jobs_that_one_thing_holds_are_one_incident(
    services: Services, receiver: ReceiverServer, beside: int, tmp_path: Path
) -> None:
    """A rank of each is in a container that is paused: one message, and the other job stands beside the first."""
    with ExitStack() as stack:
        both = [
            stack.enter_context(Job("healthy", directory=tmp_path, recorded=True, forked=True, beside=beside))
            for _ in range(2)
        ]
        for job in both:
            services.until_watched(job)
        with frozen_together([job.outside()[2] for job in both]):
            found = [services.until(job, lambda incident: bool(incident["roots"])) for job in both]
            first, other = sorted(found, key=lambda each: str(each["id"]))
            assert first["roots"] == other["roots"] and "freez" in first["roots"][0], found
            assert other["part_of"] == first["id"]
            (held,) = services.get(f"/v1/incidents/{first['id']}")["holds"]
            assert (held["incident"], held["job"]) == (other["id"], other["job"])
            listed = [each["id"] for each in services.get("/v1/incidents")["incidents"]]
            assert first["id"] in listed and other["id"] not in listed
        for job in both:
            services.until(job, lambda incident: bool(incident["state"] == "resolved"))
        until(lambda: [len(told_of(receiver, job)) for job in both], lambda told: sum(told) == 2, SECONDS)
        assert sorted(len(told_of(receiver, job)) for job in both) == [0, 2]
