"""Nothing of ours is broken: the verdicts are those of one machine, with the hosts' names in them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shared.answer.words import Certainty, Kind, Verdict
from tests.system.e2e.cluster import NODES, Cluster
from tests.system.e2e.hosts import END_SECONDS
from tests.system.e2e.jobs import WORLD, ClusterJob
from tests.system.e2e.network import Network
from tests.system.live.truths import REPOSITORY

pytestmark = [
    pytest.mark.live, pytest.mark.steady, pytest.mark.ptrace, pytest.mark.root, pytest.mark.timeout(600)
]  # fmt: skip


def test_a_job_that_trains_and_one_that_hangs(cluster: Cluster, training: ClusterJob, hung: ClusterJob) -> None:
    """The culprit is named with its host and its number there, and nobody else."""
    trains = cluster.until(training.name, lambda told: told.diagnosis.verdict is Verdict.NOT_HUNG)
    hangs = cluster.until(hung.name, lambda told: told.diagnosis.verdict is Verdict.HUNG)
    for told in (trains, hangs):
        coverage = told.diagnosis.coverage
        assert (coverage.expected, coverage.answered, coverage.with_trace) == (WORLD, WORLD, WORLD), told.text
    assert trains.culprits == frozenset()
    (finding,) = hangs.diagnosis.findings
    (culprit,) = finding.culprits
    assert (finding.kind, finding.certainty, finding.victims) == (Kind.RANK_NOT_JOINED, Certainty.PROVEN, "0-1,3-5")
    assert (culprit.rank, culprit.local_rank, culprit.host) == (2, 0, "node2")
    assert f"NSpid:\t{hung.ranks[2]}\t{culprit.pid}\n" in Path(f"/proc/{hung.ranks[2]}/status").read_text()


def test_each_agent_sees_its_own_host(cluster: Cluster, training: ClusterJob, hung: ClusterJob) -> None:
    """Hosts are as separate here as machines are: the numbers of processes repeat."""
    for job in (training, hung):
        ranks = cluster.asker.get(f"/v1/jobs/{job.name}").json()["ranks"]
        assert [(rank["rank"], rank["host"]) for rank in ranks] == [(rank, NODES[rank // 2]) for rank in range(WORLD)]


_KILLED = """
import sys, time
from pathlib import Path
from tests.system.e2e.network import Network
folder = Path(sys.argv[1])
with Network("one", "two", directory=folder) as network, network.bad_cable("one", loss=0.5):
    guest = network.hosts["one"].start(("sleep", "600"), output=folder / "out", environment={})
    print(guest.pid, *(host.pid for host in network.hosts.values()), network.switch.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_behind(number: signal.Signals, may_make_hosts: None, tmp_path: Path) -> None:
    """Hosts, what runs in them and their cables end with whoever has made them, however that ends."""
    command = (sys.executable, "-c", _KILLED, str(tmp_path))
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as maker:
        assert maker.stdout is not None
        pids = [int(word) for word in maker.stdout.readline().split()]
        networks = {os.readlink(f"/proc/{pid}/ns/net") for pid in pids}
        assert len(pids) == 4 and len(networks) == 3
        maker.send_signal(number)
        maker.wait(END_SECONDS)
    until = time.monotonic() + END_SECONDS
    while left := _inside(networks):
        assert time.monotonic() < until, left
        time.sleep(0.02)


def _inside(networks: set[str]) -> list[str]:
    """Processes that are on these networks."""
    found = []
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if os.readlink(link) in networks:
                found.append(link.parts[2])
        except OSError:  # ended meanwhile
            continue
    return found


def test_the_cable_is_as_bad_as_it_says(may_make_hosts: None, tmp_path: Path) -> None:
    """Half a second each way is a second for a connection; without the fault it takes no time."""
    program = "import socket, time; b = time.monotonic(); s = socket.socket(); s.settimeout(8)\n"
    program += "print(s.connect_ex(('two', 9)), time.monotonic() - b)"
    with Network("one", "two", directory=tmp_path) as network:
        ask = network.hosts["one"].inside(sys.executable, "-c", program)
        with network.bad_cable("two", delay_seconds=0.5):
            slow = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=120).stdout.split()
        with network.unplugged("two"):
            gone = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=120).stdout.split()
        well = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=120).stdout.split()
    assert (slow[0], well[0]) == ("111", "111") and gone[0] != "111"
    assert float(slow[1]) >= 1.0
