"""Another user's processes that bear a job's name: they are no part of it, and their hang is not its."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from agent.app import create_app as create_agent
from agent.settings import AgentSettings
from collector.app import create_app as create_collector
from collector.settings import CollectorSettings
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Certainty, Verdict
from shared.wire.snapshot import Identity
from tests.build.processes.commands import unhang
from tests.build.processes.processes import find, until
from tests.build.processes.warm import Done
from tests.system.attacks.users import ALICE, EVE, Stage, stage

pytestmark = [pytest.mark.root, pytest.mark.ptrace]

QUICK = ("--interval", "0.5", "--native", "never")
TWO_USERS = {"UNHANG_AGENT_ONLY_USERS": f"{ALICE},{EVE}"}
"""Other tests' jobs on this machine are not listed and looked at."""


@pytest.fixture
def forged() -> Iterator[Stage]:
    """A job of Alice's that is at work, and Eve's hung later attempt of it, with a rank more.

    Alice's has one rank: that several are at work takes ten looks to tell.
    """
    with stage("forged") as job:
        job.at_work(ALICE, 0, size=1)
        stopped, _ = (job.rank(EVE, rank, attempt=9) for rank in (0, 1))
        os.kill(stopped, signal.SIGSTOP)
        yield job


def identities(job: Stage) -> list[Identity]:
    """Whom an agent finds under a job's name."""
    return [rank.identity for rank in find().ranks if rank.identity.job == job.job]


@asynccontextmanager
async def collector_of(folder: Path, **more: object) -> AsyncIterator[httpx.AsyncClient]:
    """A collector that asks the agent of this machine, which leaves out whatever others run here."""
    agent = create_agent(AgentSettings(host_name="node1", only_users=f"{ALICE},{EVE}"))
    fields = {"agents": "node1", "store": folder / "store.sqlite3", "interval_seconds": 0.5, **more}
    app = create_collector(
        CollectorSettings.model_validate(fields), mounts={"http://node1:8471": httpx.ASGITransport(agent)}
    )
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://collector", timeout=300) as client,
    ):
        yield client


async def diagnose(client: httpx.AsyncClient, job: str) -> Diagnosis:
    """Ask as a bot does."""
    answer = await client.post(f"/v1/jobs/{job}/diagnoses", params={"wait": 240}, json={"native": "never"})
    assert answer.status_code == 200, answer.text
    return Diagnosis.model_validate_json(answer.content)


def test_agents_tell_whose_a_rank_is() -> None:
    """Equal rank, equal attempt: both are seen, each with its user."""
    with stage("equal") as job:
        pids = [job.rank(ALICE, 0), job.rank(EVE, 0)]
        found = until(lambda: identities(job), lambda found: len(found) == 2)
        assert {(each.pid, each.user) for each in found} == set(zip(pids, (str(ALICE), str(EVE)), strict=True))


def test_python_of_one_user_does_not_hide_another_users_program() -> None:
    """Of processes of one identity those that run Python are the ranks; that is so within one user's alone."""
    with stage("native") as job:
        become = f"import os; os.setgroups([]); os.setuid({ALICE}); print('ready', flush=True)\n"
        native = job.start(become + "os.execv('/bin/sleep', ['sleep', '600'])", 0)
        until(lambda: Path(f"/proc/{native}/comm").read_text(), lambda name: name == "sleep\n")
        job.rank(EVE, 0)
        assert native in [each.pid for each in identities(job)]


def test_what_root_starts_as_a_user_is_that_users_job() -> None:
    """`sudo -u` and `su -c` stay above what they start, with its variables: one job, and the user's."""
    with stage("wrapped") as job:
        for rank in (0, 1):
            program = f"import os, time; os.setuid({ALICE}); print('ready', flush=True); time.sleep(600)"
            wrapper = ["sh", "-c", f'"{sys.executable}" -c "$PROGRAM"; exit']
            job.start(f"import os\nos.environ['PROGRAM'] = {program!r}\nos.execv('/bin/sh', {wrapper!r})", rank)
        assert [(each.rank, each.user) for each in identities(job)] == [(0, str(ALICE)), (1, str(ALICE))]


@pytest.mark.parametrize("inside", [ALICE, 0])
def test_user_of_an_own_namespace_is_who_made_it(inside: int) -> None:
    """`unshare --user --map-user=…` makes nobody another user."""
    with stage("unshared") as job:
        job.rank(EVE, 0, inside=inside)
        assert [each.user for each in identities(job)] == [str(EVE)]


def test_containers_with_user_ids_of_their_own_are_one_job() -> None:
    """Two pods with `hostUsers: false` have other ids on the node and one inside: theirs is one job."""
    with stage("containers") as job:
        for rank in (0, 1):
            job.in_container(700_000 + rank * 65_536, 1000, rank)
        found = until(lambda: [each for each in identities(job) if each.user == "c1000"], lambda it: len(it) >= 2)
        assert {each.rank for each in found} == {0, 1}


LIKE_SUDO = 'int main() { setresgid(0, 0, 0); setresuid(0, 0, 0); puts("ready"); fflush(stdout); sleep(600); }'


def test_set_uid_program_is_no_rank() -> None:
    """`sudo`, while it asks for a password, is root in every respect, with the variables of whoever called it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None, "a C compiler is there"
    with stage("setuid") as job, TemporaryDirectory(dir="/var/tmp") as folder:
        program = Path(folder) / "like_sudo"
        headers = ("-D_GNU_SOURCE", "-include", "unistd.h", "-include", "stdio.h")
        subprocess.run([compiler, *headers, "-x", "c", "-", "-o", program], input=LIKE_SUDO, text=True, check=True)
        Path(folder).chmod(0o755)
        program.chmod(0o4755)
        pid = job.start(f"import os; os.setgroups([]); os.setuid({EVE})\nos.execv('{program}', ['like_sudo'])", 0)
        assert "Uid:\t0\t0\t0\t0" in Path(f"/proc/{pid}/status").read_text()
        assert identities(job) == []


async def test_later_attempt_of_another_user_replaces_nothing(forged: Stage, tmp_path: Path) -> None:
    """Through the collector: the bare name is refused with both names, and each of those gives its own job."""
    async with collector_of(tmp_path) as client:
        refused = await client.post(f"/v1/jobs/{forged.job}/diagnoses", params={"wait": 240})
        listed = (await client.get("/v1/jobs")).json()["jobs"]
        alices = await diagnose(client, f"{forged.job}@{ALICE}")
        eves = await diagnose(client, f"{forged.job}@{EVE}")
        detail = (await client.get(f"/v1/jobs/{forged.job}@{ALICE}")).json()
        stacks = (await client.get(f"/v1/jobs/{forged.job}@{ALICE}/stacks")).text
        views = [(await client.get(f"/v1/jobs/{forged.job}{path}")).status_code for path in ("", "/stacks", "/check")]
    names = [f"{forged.job}@{user}" for user in (ALICE, EVE)]
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"
    assert all(name in refused.json()["advice"] for name in names)
    assert [each["name"] for each in listed if each["name"].startswith(forged.job)] == names
    assert (alices.verdict, alices.user, alices.coverage.seen) == (Verdict.NOT_HUNG, str(ALICE), 1)
    assert (eves.verdict, eves.user) == (Verdict.HUNG, str(EVE))
    assert {rank["user"] for rank in detail["ranks"]} == {str(ALICE)}
    assert "barrier" not in stacks
    assert views == [400, 400, 400]


async def test_surveys_keep_users_apart(forged: Stage, tmp_path: Path) -> None:
    """A large job is surveyed before anybody lists who is where."""
    async with collector_of(tmp_path, survey_above=0) as client:
        refused = await client.post(f"/v1/jobs/{forged.job}/diagnoses", params={"wait": 240})
        alices = await diagnose(client, f"{forged.job}@{ALICE}")
        bundle = await client.get(f"/v1/diagnoses/{alices.id}/bundle")
    assert refused.status_code == 400
    assert (alices.verdict, alices.coverage.seen) == (Verdict.NOT_HUNG, 1)
    saved = tmp_path / "saved.tar.gz"
    saved.write_bytes(bundle.content)
    again = Diagnosis.model_validate_json(unhang("diagnose", "--from", str(saved), "--json").out)
    assert (again.verdict, again.user, again.job) == (Verdict.NOT_HUNG, str(ALICE), f"{forged.job}@{ALICE}")


@pytest.mark.slow
def test_one_box(forged: Stage, tmp_path: Path) -> None:
    """`unhang jobs`, `unhang diagnose` and saved snapshots: never a mixture, and both names to choose from."""
    alices, eves = (f"{forged.job}@{user}" for user in (ALICE, EVE))
    listed = unhang("jobs", env=TWO_USERS).out
    assert alices in listed
    assert eves in listed
    bare = unhang("diagnose", forged.job, *QUICK, env=TWO_USERS)
    _is_refused(bare, alices, eves)
    assert _verdict(unhang("diagnose", alices, *QUICK, "--json", env=TWO_USERS)) is Verdict.NOT_HUNG
    assert _verdict(unhang("diagnose", eves, *QUICK, "--json", env=TWO_USERS)) is Verdict.HUNG
    assert unhang("snapshot", "--job", forged.job, "-o", str(tmp_path), "--interval", "0.5", env=TWO_USERS).status == 0
    _is_refused(unhang("diagnose", forged.job, "--from", str(tmp_path)), alices, eves)
    assert _verdict(unhang("diagnose", alices, "--from", str(tmp_path), "--json")) is Verdict.NOT_HUNG


def _is_refused(done: Done, *names: str) -> None:
    assert done.status not in (0, 10)
    assert all(name in done.err for name in names)


def _verdict(done: Done) -> Verdict:
    return Diagnosis.model_validate_json(done.out).verdict


def test_missing_ranks_are_not_made_up_by_others() -> None:
    """Alice's ranks 0 and 1 of 4 wait; Eve gives a stopped rank 3: Alice's job lacks it, and Eve's is not named."""
    with stage("filled") as job:
        for rank in (0, 1):
            job.rank(ALICE, rank, size=4)
        pid = job.rank(EVE, 3, size=4)
        os.kill(pid, signal.SIGSTOP)
        done = unhang("diagnose", f"{job.job}@{ALICE}", *QUICK, "--json", env=TWO_USERS)
        diagnosis = Diagnosis.model_validate_json(done.out)
        assert diagnosis.coverage.seen == 2
        assert str(pid) not in done.out


def test_name_of_another_users_job_cannot_be_taken() -> None:
    """Eve calls her job `demo@ALICE`: asked for, that is Alice's still, and hers has her own number behind it."""
    with stage("posed") as job:
        job.at_work(ALICE, 0, size=1)
        with stage("posed") as other:
            other.job = f"{job.job}@{ALICE}"
            os.kill(other.rank(EVE, 0, size=1), signal.SIGSTOP)
            listed = unhang("jobs", env=TWO_USERS).out.split()
            assert job.job in listed
            assert f"{job.job}@{ALICE}@{EVE}" in listed
            assert f"{job.job}@{ALICE}" not in listed
            diagnosis = Diagnosis.model_validate_json(
                unhang("diagnose", f"{job.job}@{ALICE}", *QUICK, "--json", env=TWO_USERS).out
            )
            assert (diagnosis.user, diagnosis.verdict) == (str(ALICE), Verdict.NOT_HUNG)


def test_one_users_job_keeps_its_name(tmp_path: Path) -> None:
    """Nothing changes for a name that one user has; a hang of his own is as certain as ever."""
    with stage("alone") as job:
        stopped, _ = (job.rank(ALICE, rank) for rank in (0, 1))
        os.kill(stopped, signal.SIGSTOP)
        diagnosis = Diagnosis.model_validate_json(unhang("diagnose", job.job, *QUICK, "--json", env=TWO_USERS).out)
        assert (diagnosis.job, diagnosis.user, diagnosis.verdict) == (job.job, str(ALICE), Verdict.HUNG)
        assert diagnosis.findings[0].certainty is Certainty.PROVEN
