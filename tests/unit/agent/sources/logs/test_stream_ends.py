"""Real pipelines, followed to the files where they end."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.sources.logs.logs_source import LogsSource
from agent.sources.logs.stream_ends import stream_ends
from agent.sources.look_context import LookContext
from shared.missing import Reason
from shared.wire.log_events import EventKind, Logs
from tests.build.processes.looking import ask_source, rank_of
from tests.build.processes.processes import running, until

pytestmark = pytest.mark.ptrace

# Where the tests' Python lies in root's home, nobody else reaches it otherwise.
_MAY_READ = "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search"
AS_USER = f"setpriv --reuid=61002 --regid=61002 --clear-groups {_MAY_READ}"
AS_ANOTHER = "setpriv --reuid=61003 --regid=61003 --clear-groups"
LINE = (
    "[rank0]:[E1121 09:10:11.123456789 ProcessGroupNCCL.cpp:685] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 "
    "milliseconds before timing out."
)


@contextmanager
def pipeline(script: str, told: Path) -> Iterator[int]:
    """Run a pipeline in bash, in which `$RANK` stands for a rank that says something; yield the rank's process id."""
    program = told.with_suffix(".py")
    program.write_text(
        f"import os, time\nopen({str(told)!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
        f"print({LINE!r}, flush=True)\ntime.sleep(600)\n"
    )
    environment = {**os.environ, "RANK": f"{sys.executable} {program}"}
    nowhere = subprocess.DEVNULL
    with running(command=("bash", "-c", script), env=environment, stdout=nowhere, stderr=nowhere, wait=False):
        yield int(until(lambda: told.read_text() if told.exists() else "", lambda text: text.endswith("\n")))


def logs_of(pid: int, **environment: str) -> Logs:
    """Look at the logs of a process, until one has the line that it has printed."""
    source, rank = LogsSource(), rank_of(pid, **environment)
    found = until(lambda: ask_source(source, rank), lambda logs: bool(logs.events))
    assert isinstance(found, Logs)
    return found


@pytest.mark.parametrize(
    "pipes",
    [
        "| tee {log}",
        "2>&1 | tee -a {log} >/dev/null",
        "| cat | cat | tee {log} | cat",
        "| grep --line-buffered . > {log}",
    ],
)
def test_file_at_the_end_of_a_pipeline(tmp_path: Path, pipes: str) -> None:
    """However many programs stand between."""
    log = tmp_path / "job.log"
    with pipeline(f"$RANK {pipes.format(log=log)}", tmp_path / "pid") as pid:
        found = logs_of(pid)
    assert [file.path for file in found.files] == [str(log)]
    assert [(event.kind, event.path) for event in found.events] == [(EventKind.WATCHDOG_TIMEOUT, str(log))]


def test_pipe_that_all_ranks_write_into(tmp_path: Path) -> None:
    """As below torchrun: a line without a mark is no single rank's."""
    log = tmp_path / "job.log"
    log.write_text('Traceback (most recent call last):\n  File "x", line 1, in x\nValueError: whose?\n')
    with pipeline(f"(sh -c '$RANK; true'; true) | tee -a {log}", tmp_path / "pid") as pid:
        found = logs_of(pid)
    assert found.files[0].shared
    assert [event.rank for event in found.events if event.kind is EventKind.EXCEPTION] == [None]


SUPERVISOR = shlex.quote(
    "import subprocess, sys\nown = open(sys.argv[1], 'w')\n"
    "for line in subprocess.Popen(sys.argv[2:], stdout=-1, text=True).stdout:\n"
    "    print('begun', file=own, flush=True)\n"
)


@pytest.mark.parametrize(
    "script",
    [
        "$RANK | tee {log} {log}.1 {log}.2 {log}.3 {log}.4 {log}.5 {log}.6 {log}.7 {log}.8",  # whose cannot be told
        f"{sys.executable} -c {SUPERVISOR} {{log}} $RANK",  # it writes what it likes to its own files
    ],
    ids=["many files", "a supervisor"],
)
def test_readers_whose_files_are_not_the_ranks(tmp_path: Path, script: str) -> None:
    """Nothing is taken of one that serves others as well, or is no filter."""
    log = tmp_path / "job.log"
    with pipeline(script.format(log=log), tmp_path / "pid") as pid:
        until(lambda: log.exists() and log.read_text(), bool)
        with pytest.raises(Unavailable, match="do not go to a readable file"):
            ask_source(LogsSource(), rank_of(pid))


def test_output_of_srun_on_this_node(tmp_path: Path) -> None:
    """A task writes to slurmstepd, which sends it to srun: srun's own output is the task's."""
    srun, log, other = tmp_path / "srun", tmp_path / "slurm-7.out", tmp_path / "slurm-8.out"
    srun.symlink_to("/bin/sh")
    sleeping = (str(srun), "-c", "read word")
    with ExitStack() as stack:
        for job, path in (("7", log), ("8", other)):
            path.write_text(f"0: {LINE}\n1: step 9 of job {job}\n")
            file = stack.enter_context(open(path, "a"))
            variables = {**os.environ, "SLURM_JOB_ID": job}
            stack.enter_context(
                running(command=sleeping, env=variables, stdin=-1, stdout=file, stderr=file, wait=False)
            )
        process = stack.enter_context(running(stderr=subprocess.DEVNULL))
        found = logs_of(process.pid, SLURM_JOB_ID="7")
    assert [file.path for file in found.files] == [str(log)]
    assert found.files[0].shared
    assert [event.rank for event in found.events] == [0]


def test_pipes_in_a_ring() -> None:
    """A job may lead us in circles, which ends."""
    there, back = os.pipe(), os.pipe()
    filters = [
        subprocess.Popen(["cat"], stdin=source, stdout=target, stderr=subprocess.DEVNULL)
        for source, target in ((there[0], back[1]), (back[0], there[1]))
    ]
    try:
        with running("import time; time.sleep(600)", stdout=there[1], stderr=subprocess.DEVNULL, wait=False) as process:
            context = LookContext(ProcFs(), "here")
            assert len(context.holders(os.readlink(f"/proc/{process.pid}/fd/1"))) > 3
            assert not list(stream_ends(context, rank_of(process.pid)))
    finally:
        for process_between in filters:
            process_between.kill()
            process_between.wait()
        for end in (*there, *back):
            os.close(end)


@pytest.mark.root
@pytest.mark.needs("setpriv")
@pytest.mark.parametrize(("reader", "reason"), [(AS_ANOTHER, None), ("", Reason.NOT_PERMITTED)])
def test_what_the_jobs_user_may_not_read(open_folder: Path, reader: str, reason: Reason | None) -> None:
    """A reader of another user is not followed; root's is, and no file opened that the job's user may not read."""
    log = open_folder / "job.log"
    if not reader:
        log.touch(mode=0o600)
    with pipeline(f"{AS_USER} $RANK | {reader} tee {log}", open_folder / "pid") as pid:
        until(lambda: log.exists() and log.read_text(), bool)
        with pytest.raises(Unavailable) as caught:
            ask_source(LogsSource(), rank_of(pid))
    assert reason is None or (caught.value.reason is reason and "user 61002 may not read" in str(caught.value))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder that everybody reaches and may write into."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
