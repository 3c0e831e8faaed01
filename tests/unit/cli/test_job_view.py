"""`jobs`, `stacks`, `fds`, `logs`, `sequences` on this machine and from files."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import unhang as unhang_group
from cli.sources.job_source import JobNames
from cli.tables.fds import fds_table
from cli.tables.jobs import jobs_table
from collector.gather.jobs import summarise_jobs, unread_by
from collector.show.views import FdsView, RankFds
from shared.missing import Missing, Reason
from shared.wire.snapshot import Fds, RankList, Socket
from tests.build.processes.commands import FIRST, NOBODY, REPOSITORY, SECOND, Job, unhang

CASE = REPOSITORY / "tests" / "data" / "cases" / "missing_rank2"


@pytest.mark.parametrize("name", ["jobs", "stacks", "fds", "logs", "sequences"])
def test_json_is_one_document(name: str, job: Job) -> None:
    """Standard output parses, and stderr is empty."""
    done = unhang(name, "--json", env=job.env)
    assert (done.status, done.err) == (0, "")
    assert isinstance(json.loads(done.out), dict)


@pytest.mark.parametrize("name", ["jobs", "stacks", "fds", "logs", "sequences"])
def test_text_steers_no_terminal(name: str, job: Job) -> None:
    """A job's name and log lines with control characters are shown, not obeyed."""
    done = unhang(name, env=job.env)
    assert done.status == 0
    assert all(line.isprintable() for line in (done.out + done.err).splitlines())


def test_jobs(job: Job) -> None:
    """One line per job."""
    heads, row = unhang("jobs", env=job.env).out.splitlines()
    assert heads.split()[:5] == ["JOB", "OWNER", "STATE", "AGE", "RANKS"]
    assert "$(reboot)" in row
    assert f"{FIRST}-{SECOND}" in row


def test_no_jobs() -> None:
    """Nothing there is no failure of the list."""
    done = unhang("jobs", env={"UNHANG_AGENT_ONLY_RANKS": str(NOBODY)})
    assert (done.status, done.out.splitlines()[0]) == (0, "no jobs were found")


def test_no_jobs_for_somebody_who_may_not_read() -> None:
    """What could not be read is reported, as a diagnosis does; it is no matter where there are jobs."""
    hidden = "not allowed to read the environment of 3 Python processes"
    missing = Missing(source="ranks", reason=Reason.NOT_PERMITTED, detail=hidden)
    lists = [RankList(host="node1", missing=(missing,))]
    assert hidden in jobs_table(JobNames(jobs=summarise_jobs(lists), unread=unread_by(lists)))


@pytest.fixture(scope="module")
def looked(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One look at the job, as files."""
    folder = tmp_path_factory.mktemp("looked")
    assert unhang("snapshot", "-o", str(folder), "--looks", "1", env=job.env).status == 0
    return folder


def test_stacks_of_one_rank(job: Job, looked: Path) -> None:
    """Only the rank asked for: on this machine, and in each of the formats, which are made of any look."""
    kept = ("--from", str(looked))
    for form, source in (("tree", ()), *((form, kept) for form in ("tree", "classes", "folded", "speedscope", "json"))):
        done = unhang("stacks", "--rank", str(FIRST), "--format", form, *source, env=job.env)
        assert done.status == 0
        assert f"rank_{FIRST}.py" in done.out
        assert f"rank_{SECOND}.py" not in done.out


def test_native_stacks(job: Job) -> None:
    """C frames where asked for."""
    assert "sleep" in unhang("stacks", "--native", "--rank", str(FIRST), env=job.env).out


def test_fds(job: Job) -> None:
    """Counts, and the pipe with its other end."""
    out = unhang("fds", "--rank", str(SECOND), env=job.env).out
    assert out.startswith(f"rank {SECOND} (")
    assert "OTHER END" in out


def test_logs(job: Job) -> None:
    """The end of the file behind stderr, with its rank; `--events` shows what was recognised."""
    lines = unhang("logs", "-n", "1", "--rank", str(FIRST), env=job.env).out.splitlines()
    assert lines[0].startswith("==> ")
    assert lines[1].endswith(f":{FIRST}] RuntimeError: CUDA error")
    assert unhang("logs", "--events", "--rank", str(FIRST), env=job.env).status == 0


def test_sequences_from_files() -> None:
    """Who is behind, in which group."""
    result = CliRunner().invoke(unhang_group, ["sequences", "--from", str(CASE)])
    assert result.exit_code == 0
    first, _, ahead, behind, *_ = result.output.splitlines()
    assert first == "default_pg [0-3]: issued up to #4; behind: rank 2"
    assert ahead.split() == ["0-1,3", "#4", "#3", "#4", "#4", "all_reduce", "[16]"]
    assert behind.split() == ["2", "#3", "#3", "-", "#3", "all_reduce", "[16]", "←", "behind"]


def test_what_is_missing_goes_to_stderr() -> None:
    """Stacks of dumps that hold none: nothing invented on stdout, the reason on stderr."""
    result = CliRunner().invoke(unhang_group, ["stacks", "--from", str(CASE)])
    assert result.stdout == "no stack could be read from any rank\n"
    assert "ranks 0-3: stacks not_found" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--rank", "3-1"], "runs backwards"), (["--rank", "x"], "not a rank set"), (["--format", "xml"], "--format")],
)
def test_wrong_calls(arguments: list[str], said: str) -> None:
    """Told with the option's name, status 2."""
    result = CliRunner().invoke(unhang_group, ["stacks", "--from", str(CASE), *arguments])
    assert result.exit_code == 2
    assert said in result.stderr


def test_unknown_job_in_files(looked: Path) -> None:
    """A job that the snapshots do not hold."""
    done = unhang("stacks", "nope", "--from", str(looked))
    assert done.status == 1
    assert "nope" in done.err
    assert "$(reboot)" in unhang("jobs", "--from", str(looked)).out


@pytest.mark.parametrize("command", ["diagnose", "stacks"])
def test_files_in_the_place_of_a_job(command: str) -> None:
    result = CliRunner().invoke(unhang_group, [command, f"{CASE}/"])
    assert result.exit_code == 2
    assert f"--from {CASE}/" in result.stderr


def test_files_are_named_and_the_probes_socket_comes_last() -> None:
    """Whoever asks wants to see the job's."""
    ours = Socket(fd=3, kind="unix", state="LISTEN", local="/tmp/unhang-1000/366-1.sock")
    store = Socket(fd=4, kind="tcp", state="ESTABLISHED", local="10.0.0.1:4", remote="10.0.0.2:29500")
    fds = Fds(total=4, files={1: "/logs/job.out"}, files_by_file_system={"ext4": 1}, sockets=(ours, store))
    text = fds_table(FdsView(ranks=(RankFds(rank=0, host="a", pid=366, fds=fds),)), every=False)
    assert "1   /logs/job.out" in text
    assert text.index("10.0.0.2:29500") < text.index("(of unhang's probe)")
