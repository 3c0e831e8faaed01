"""One job among several on the same nodes of a real Slurm, looked at as the documents say, word by word."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from shared.answer.diagnosis import Diagnosis
from tests.system.deploy.units import REPOSITORY
from tests.system.e2e.network import Network
from tests.system.live.asking import unhang
from tests.system.slurm.cluster import Slurm
from tests.system.slurm.programs import Programs
from tests.system.slurm.sshd import serve_ssh

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.needs("slurmd")]

GUIDES = ("docs/without-a-service.md", "deploy/slurm/README.md")

# Rank 1 goes to sleep before the fifth all_reduce, where it is told to.
RANK = """
import datetime, os, sys, time
import torch, torch.distributed as dist
rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
os.environ.update(MASTER_ADDR="node1", MASTER_PORT=sys.argv[1])
dist.init_process_group("gloo", rank=rank, world_size=world, timeout=datetime.timedelta(hours=1))
value = torch.ones(1)
for step in range(10**9):
    if sys.argv[2] == "hangs" and rank == 1 and step == 5:
        time.sleep(100_000)
    dist.all_reduce(value)
    if step == 5:
        open(f"{sys.argv[3]}-{rank}", "w").close()
    time.sleep(0.2)
"""


class Two(NamedTuple):
    """The numbers of two jobs on the same nodes."""

    trains: str
    hangs: str


@pytest.fixture(scope="module")
def jobs(slurm: Slurm, programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Three ranks each."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "rank.py").write_text(RANK)
    numbers = []
    for port, does in ((29600, "trains"), (29601, "hangs")):
        words = f"srun {sys.executable} {folder}/rank.py {port} {does} {folder}/{does}"
        numbers.append(slurm.submit("-N3", "--ntasks-per-node=1", script=words))
    until = time.monotonic() + 120
    while not (folder / "trains-2").exists() and time.monotonic() < until:
        time.sleep(0.2)
    time.sleep(2.0)
    programs.install()
    yield Two(*numbers)
    for number in numbers:
        slurm.cancel(number)


def said_of(job: str, done: subprocess.CompletedProcess[str]) -> None:
    """It is that job, and its rank 1."""
    answer = done.stdout
    assert answer, done.stderr
    diagnosis = Diagnosis.model_validate_json(answer)
    assert (diagnosis.job, [f.culprit_ranks for f in diagnosis.findings]) == (f"slurm-{job}", [(1,)]), answer
    assert diagnosis.coverage.seen == 3


def test_documented_srun(jobs: Two, slurm: Slurm, programs: Programs, tmp_path: Path) -> None:
    """Typed outside of the allocation: every node of the job, which is meant by its name or its number."""
    pages = "".join((REPOSITORY / guide).read_text() for guide in GUIDES)
    one, other = re.findall(r"^    (srun .* unhang snapshot .* -o) \S+$", pages, re.MULTILINE)
    assert one == other
    line = one.replace("JOBID", jobs.hangs) + f" {tmp_path}/looks"
    done = slurm.run("sh", "-c", line, PATH=f"{programs.folder}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        sorted(path.name[:5] for path in (tmp_path / "looks").iterdir())
        == ["node1"] * 2 + ["node2"] * 2 + ["node3"] * 2
    )
    for name in (f"slurm-{jobs.hangs}", jobs.hangs):
        said_of(jobs.hangs, slurm.run(*unhang("diagnose", name, "--from", f"{tmp_path}/looks", "--json")))


@pytest.mark.needs("sshd")
def test_over_ssh(jobs: Two, network: Network, slurm: Slurm, programs: Programs, tmp_path: Path) -> None:
    """By the hosts of the job, and that job is meant; by a hostfile and the job's number."""
    over = [word for option in serve_ssh(network, tmp_path) for word in ("--ssh-option", option)]
    over += ["--remote-command", str(programs.unhang), "--json"]
    said_of(jobs.hangs, slurm.run(*unhang("diagnose", "--ssh", "--slurm", jobs.hangs, *over)))
    (tmp_path / "hostfile").write_text("# of the job\nnode1 slots=1\nnode2:1\nnode3 slots=1 max_slots=2\n")
    asked = ("diagnose", jobs.hangs, "--ssh", "--hosts", f"{tmp_path}/hostfile")
    said_of(jobs.hangs, slurm.run(*unhang(*asked, *over)))


def test_a_collector_with_slurm(jobs: Two, network: Network, slurm: Slurm, tmp_path: Path) -> None:
    """Agents are on the nodes that squeue names, and stay known where it waits; the job's number will do."""
    token = tmp_path / "token"
    token.write_text("of-these-tests-alone-0123456789\n")
    token.chmod(0o600)
    tokens = ("--token-file", str(token))
    for name, host in network.hosts.items():
        listen = ("--listen", f"{network.addresses[name]}:8471", *tokens)
        host.start(unhang("agent", *listen), output=tmp_path / f"{name}.log", environment=slurm.environment)
    wanted = ("--slurm", "--agent-token-file", str(token), "--store", str(tmp_path / "store"), *tokens)
    collector = unhang("collector", "--listen", f"{network.addresses['node1']}:8470", *wanted)
    network.hosts["node1"].start(collector, output=tmp_path / "collector.log", environment=slurm.environment)
    at = ("--collector", "http://node1:8470", "--token-file", str(token))
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if slurm.run(*unhang("jobs", *at, "--json")).stdout.count(f'"slurm-{jobs.hangs}"'):
            break
        time.sleep(0.5)
    with slurm.without_controller():
        said_of(jobs.hangs, slurm.run(*unhang("diagnose", jobs.hangs, *at, "--json")))


@pytest.mark.parametrize(
    ("job", "complaint"),
    [("4242", "knows no job 4242"), ("42;reboot", "not a Slurm job"), ("--all", "not a Slurm job")],
)
def test_slurm_has_no_such_job(job: str, complaint: str, slurm: Slurm) -> None:
    """Said in a line."""
    done = slurm.run(*unhang("diagnose", "--ssh", f"--slurm={job}"))
    assert done.returncode == 1 and complaint in done.stderr
