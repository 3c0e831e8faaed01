"""The bot in docs/bots.md, run as it stands there against a collector that asks an agent of a recorded job."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from collector.app import create_app
from collector.settings import CollectorSettings
from collector.show.mcp.described import TOOLS
from collector.show.mcp.pages import MOST_CHARACTERS
from shared.answer.words import Act
from shared.wire.snapshot import Exited, RankSnapshot
from tests.build.agents.fake_agents import FakeAgent, case_ranks, make_rank
from tests.build.agents.served_agents import served
from tests.build.processes.commands import REPOSITORY, environment
from tests.build.services.services import Service, running

PAGE = (REPOSITORY / "docs" / "bots.md").read_text(encoding="utf-8")
JOB = "slurm-4242"
TOKEN = "right"


@contextmanager
def collector_of(
    ranks: Sequence[RankSnapshot], folder: Path, *, signals: Mapping[int, int] | None = None
) -> Iterator[Service]:
    """Run a collector of one node with these ranks, which asks for a token; `signals`: they have ended by these."""
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f"{TOKEN}\n", encoding="ascii")
    of_job = [of_slurm(rank) for rank in ranks]
    over = tuple(
        Exited(pid=one.identity.pid or 0, identity=one.identity, signal=(signals or {}).get(one.identity.rank))
        for one in of_job
    )
    with served(FakeAgent("node1", of_job if signals is None else (), exited=() if signals is None else over)) as url:
        settings = CollectorSettings(
            agents=url,
            store=str(folder / "store.sqlite3"),
            audit_log=folder / "audit.jsonl",
            token_file=tokens,
            interval_seconds=0.01,
            patience_seconds=0.0,
        )
        app = create_app(settings)
        with running(app, settings, app.state.audit) as service:
            yield service


def of_slurm(rank: RankSnapshot) -> RankSnapshot:
    """The rank as one of Slurm's job."""
    return rank.model_copy(update={"identity": rank.identity.model_copy(update={"job": JOB})})


STUCK = "all_joined_none_done"
"""All four ranks came to an operation, and it did not end: what is restarted."""


def run_bot(
    url: str, folder: Path, *, pager: str = "", failing: str = "nothing", status: int = 0
) -> tuple[str, list[str], str]:
    """Run the page's bot; return what was paged, what it asked of Slurm, and what it said to its journal.

    `failing`: the first word of the request to Slurm that fails.
    """
    (bot,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    asked, slurm = folder / "asked", folder / "scontrol"
    slurm.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n[ "$1" != {failing} ]\n', encoding="ascii")
    slurm.chmod(0o755)
    asked.write_text("")
    env = environment({"UNHANG_COLLECTOR": url, "UNHANG_TOKEN": TOKEN} | ({"UNHANG_PAGER": pager} if pager else {}))
    env["PATH"] = f"{folder}:{env['PATH']}"
    done = subprocess.run([sys.executable, "-c", bot, JOB], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == status, done.stderr
    return done.stdout, asked.read_text("ascii").splitlines(), done.stderr


def test_person_is_paged_and_then_what_is_stuck_is_restarted_whatever_fails(tmp_path: Path) -> None:
    """Nothing that fails keeps the page from being sent, and each failure is told."""
    with collector_of(case_ranks(STUCK, range(4), host="node1"), tmp_path) as service:
        url = service.plain_url("")
        paged, asked, journal = run_bot(url, tmp_path)
        assert asked == ["requeue 4242"] and not journal
        assert paged.startswith("PAGE Hung: ranks 0-3 are stuck") and "this bot restarts it now" in paged
        assert "see /v1/diagnoses/" in paged and "  restart: start the job again" in paged
        paged, asked, _ = run_bot(url, tmp_path, failing="requeue", status=1)
        assert asked == ["requeue 4242"] and paged.count("PAGE ") == 2
        assert f"PAGE {JOB} was not restarted\n  scontrol requeue 4242: status 1" in paged
        for pager in ("/nowhere", "false"):
            paged, asked, journal = run_bot(url, tmp_path, pager=pager, status=1)
            assert asked == ["requeue 4242"] and not paged
            assert journal.startswith("PAGE Hung: ranks 0-3") and f"not sent: {pager}: " in journal


def test_collector_that_cannot_be_asked_is_for_a_person(tmp_path: Path) -> None:
    paged, asked, _ = run_bot("http://127.0.0.1:9", tmp_path)
    assert asked == [] and paged.startswith(f"PAGE no diagnosis of {JOB}: ")


def test_what_is_proven_and_would_come_again_is_for_a_person(tmp_path: Path) -> None:
    """Rank 2 has not joined, as the records of all four show: a restart would show nobody why."""
    with collector_of(case_ranks("missing_rank2", range(4), host="node1"), tmp_path) as service:
        paged, asked, _ = run_bot(service.plain_url(""), tmp_path)
    assert asked == [] and paged.startswith("PAGE Hung: rank 2 ")


def test_what_is_not_proven_is_for_a_person(tmp_path: Path) -> None:
    """Four ranks that sleep without a record: nothing is restarted."""
    with collector_of([make_rank(rank, host="node1") for rank in range(4)], tmp_path) as service:
        paged, asked, _ = run_bot(service.plain_url(""), tmp_path)
    assert asked == [] and paged.startswith("PAGE ")


def test_job_that_was_killed_is_for_a_person(tmp_path: Path) -> None:
    """Rank 2 was killed, and the launcher ended the others: nothing runs any more, and nothing is said to be well."""
    signals = {0: 15, 1: 15, 2: 9, 3: 15}
    with collector_of([make_rank(rank, host="node1") for rank in range(4)], tmp_path, signals=signals) as service:
        said, asked, _ = run_bot(service.plain_url(""), tmp_path)
    assert asked == []
    assert said.startswith(
        "PAGE Died: first rank 2 was killed by signal 9 (SIGKILL); ranks 0-1,3 were ended by signal 15"
    )
    assert "  restart: start the job again, and find out who ended rank 2" in said


def test_job_that_no_agent_knows_is_for_a_person(tmp_path: Path) -> None:
    """It may have died before an agent saw it."""
    with collector_of([], tmp_path) as service:
        said, asked, _ = run_bot(service.plain_url(""), tmp_path)
    assert asked == []
    assert said.startswith(f"PAGE no diagnosis of {JOB}: no agent knows job '{JOB}'\n  running jobs: none")


_ROW = r"^\| `([a-z_]+)` \|"


def test_page_lists_the_acts_and_the_tools_and_their_bound() -> None:
    """All of them, by name."""
    acts, tools = PAGE.partition("## Schedulers")[0], PAGE.partition("## Language models")[2]
    assert set(re.findall(_ROW, tools, re.MULTILINE)) == {tool.name for tool in TOOLS}
    assert set(re.findall(_ROW, acts, re.MULTILINE)) == {act.value for act in Act}
    assert f"{MOST_CHARACTERS:,} characters" in PAGE
