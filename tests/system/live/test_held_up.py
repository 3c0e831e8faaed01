"""Others wait for a rank that works, for real: held up and not hung; and hung where it waits for what cannot come."""

from pathlib import Path

import pytest

from tests.system.live.asking import diagnosed
from tests.system.live.jobs import Job

pytestmark = [pytest.mark.live, pytest.mark.ptrace]


def waiting_for(what: str, directory: Path, container: int) -> Job:
    """Return a job of four ranks, of which one does that and the others wait."""
    environment = {"WAITED_FOR": what}
    return Job("waited_for", directory=directory, forked=True, beside=container, environment=environment)


@pytest.mark.parametrize(
    ("what", "means", "told"),
    [
        ("back_off", "sleep", "at back_off"),
        ("tokenize", "cpu", "at tokenize"),
        ("write_file", "file", "shard-"),
        ("download", "connection", "from 127.0.0.1:"),
        ("compress_in_child", "child", "(gzip)"),
    ],
)
def test_who_works_holds_up(what: str, means: str, told: str, container: int, tmp_path: Path) -> None:
    """Seconds later the verdict says with what, and from when on it would be called hung."""
    with waiting_for(what, tmp_path, container) as job:
        reply = diagnosed(job, patience=None)
    (finding,) = reply.answer["findings"]
    assert (reply.status, reply.answer["verdict"], finding["kind"]) == (11, "slow", "held_up")
    assert [culprit["rank"] for culprit in finding["culprits"]] == [2] and finding["hung_from"] is not None
    works = [each for each in finding["evidence"] if each["kind"] == "work"]
    assert any(work["means"] == means and told in work["text"] for work in works), works


@pytest.mark.parametrize("what", ["sleep_a_day", "wait_for_stopped_child", "receive_nothing"])
def test_who_waits_for_what_cannot_come_hangs(what: str, container: int, tmp_path: Path) -> None:
    """As quickly as any other that does not move."""
    with waiting_for(what, tmp_path, container) as job:
        reply = diagnosed(job, patience=None)
    (finding,) = reply.answer["findings"]
    assert (reply.status, finding["kind"]) == (10, "rank_not_joined")
    assert [culprit["rank"] for culprit in finding["culprits"]] == [2]
