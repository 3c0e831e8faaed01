"""`unhang preflight` under real launchers, on hosts of our own: each finds its place by what the launcher says.

Run by `make preflight`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.answer.preflight import NodeState, PreflightReport, Soundness
from tests.system.e2e.network import Network
from tests.system.live.asking import unhang
from tests.system.preflight.nodes import TOKEN, names, network_of
from tests.system.slurm.cluster import Slurm
from tests.system.slurm.sshd import serve_ssh

pytestmark = [pytest.mark.bench, pytest.mark.root, pytest.mark.timeout(600)]

HOSTS = names(3)
END_SECONDS = 300.0
PREFLIGHT = unhang("preflight", "--json", "--python", sys.executable, "--wait", "120", "--slow", "1000")


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Three hosts, new for each test."""
    with network_of(HOSTS, tmp_path) as network:
        yield network


def environment(**variables: str) -> dict[str, str]:
    """What a user has set before the launcher."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNHANG", "MASTER"))}
    return own | {"OMP_NUM_THREADS": "1", "UNHANG_PREFLIGHT_TOKEN": TOKEN} | variables


def report_of(network: Network, *command: str, **variables: str) -> tuple[PreflightReport, int]:
    """Run a launcher on the first host; return the one report in its output, and its status."""
    done = subprocess.run(
        network.hosts[HOSTS[0]].inside(*command),
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=END_SECONDS,
    )
    assert done.stdout.count('"schema_version"') == 1, done.stdout + done.stderr
    text = done.stdout[done.stdout.index("{") : done.stdout.rindex("}") + 1]  # on a terminal, as of mpirun, indented
    return PreflightReport.model_validate_json(text), done.returncode


@pytest.mark.needs("mpirun")
@pytest.mark.needs("sshd")
def test_mpirun(network: Network, tmp_path: Path) -> None:
    """Open MPI with two processes on each host: one of each takes part."""
    agent = " ".join(("ssh", *(word for option in serve_ssh(network, tmp_path) for word in ("-o", option))))
    hosts = ",".join(f"{name}:2" for name in HOSTS)
    start = ("mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", agent, "--host", hosts)
    network_only = ("--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0")
    exported = ("-x", "UNHANG_PREFLIGHT_TOKEN", "-x", "OMP_NUM_THREADS", "-x", "PATH")
    program = (*PREFLIGHT, "--coordinator", f"{HOSTS[0]}:8473")
    report, status = report_of(network, *start, *network_only, *exported, "--map-by", "ppr:2:node", *program)
    assert (report.verdict, status, report.hosts(NodeState.GOOD)) == (Soundness.SOUND, 0, HOSTS)


def test_torchrun(network: Network, tmp_path: Path) -> None:
    """Started on every host, with two processes on each; the rendezvous decides which host is first."""
    launch = ("-m", "torch.distributed.run", "--nnodes", str(len(HOSTS)), "--nproc-per-node", "2", "--no-python")
    meet = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{HOSTS[0]}:29600", "--rdzv-id", "preflight")
    guests = [
        network.hosts[name].start(
            (sys.executable, *launch, *meet, *PREFLIGHT), output=tmp_path / f"{name}.log", environment=environment()
        )
        for name in HOSTS
    ]
    assert [guest._outer.wait(END_SECONDS) for guest in guests] == [0] * len(HOSTS)
    said = [(tmp_path / f"{name}.log").read_text() for name in HOSTS]
    (line,) = [line for text in said for line in text.splitlines() if line.startswith('{"schema_version"')]
    report = PreflightReport.model_validate_json(line)
    assert (report.verdict, set(report.hosts(NodeState.GOOD))) == (Soundness.SOUND, set(HOSTS))


def test_an_indexed_kubernetes_job(network: Network, tmp_path: Path) -> None:
    """The variables that the manifest in docs/preflight.md gives a pod: an index, MASTER_ADDR, the token."""
    guests = [
        network.hosts[name].start(
            (*PREFLIGHT, "--nodes", str(len(HOSTS))),
            output=tmp_path / f"{name}.log",
            environment=environment(JOB_COMPLETION_INDEX=str(index), MASTER_ADDR=HOSTS[0]),
        )
        for index, name in enumerate(HOSTS)
    ]
    assert [guest._outer.wait(END_SECONDS) for guest in guests] == [0] * len(HOSTS)
    said = (tmp_path / f"{HOSTS[0]}.log").read_text()
    report = PreflightReport.model_validate_json(next(line for line in said.splitlines() if line.startswith("{")))
    assert (report.verdict, report.hosts(NodeState.GOOD)) == (Soundness.SOUND, HOSTS)


@pytest.mark.needs("slurmd")
def test_srun(network: Network, tmp_path: Path) -> None:
    """Slurm itself: a slurmd on each host. One task on each node, two on each, and from a batch script."""
    with Slurm(network, tmp_path, environment=environment()) as slurm:
        for start in (("srun", "-N3", "--ntasks-per-node=1"), ("srun", "-N3", "-n6", "--overcommit")):
            report, status = report_of(network, *start, *PREFLIGHT, SLURM_CONF=slurm.environment["SLURM_CONF"])
            assert (report.verdict, status, report.hosts(NodeState.GOOD)) == (Soundness.SOUND, 0, HOSTS)
        out = tmp_path / "preflight"
        words = " ".join(f"'{word}'" if '"' in word else f'"{word}"' for word in (*PREFLIGHT, "--out", str(out)))
        done = slurm.run("sbatch", "-W", "-N3", "-o", "/dev/null", f"--wrap=srun --ntasks-per-node=1 {words}")
        assert done.returncode == 0, done.stderr
        assert (out / "good_nodes").read_text().split() == list(HOSTS)
