"""Sixteen hosts, and what can be wrong with some of them: every bad one is named, no good one is, all are tested.

Run by `make preflight`: each test starts sixteen interpreters with PyTorch, and waits for trials that time out.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from shared.answer.preflight import NodeState, PreflightKind, PreflightReport, Soundness
from tests.system.e2e.network import Network
from tests.system.preflight.nodes import Ended, Preflight, names, network_of

pytestmark = [pytest.mark.bench, pytest.mark.root, pytest.mark.timeout(900)]

COUNT = 16
FLAGS = ("--trial", "15", "--wait", "120")
DEADLINE = 420.0

Fault = Callable[[Network], contextlib.AbstractContextManager[object]]


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Sixteen hosts, new for each test."""
    with network_of(names(COUNT), tmp_path) as network:
        yield network


@contextlib.contextmanager
def unlinked(network: Network, one: str, other: str) -> Iterator[None]:
    """Two hosts between which nothing passes."""
    network.hosts[one].ip(f"route add blackhole {network.addresses[other]}/32")
    yield


@contextlib.contextmanager
def closed_port(network: Network, name: str) -> Iterator[None]:
    """A host that drops what comes to MASTER_PORT."""
    rule = "rule add pref 0 iif eth0 ipproto tcp dport 29500 blackhole"
    network.hosts[name].ip("rule add pref 1 lookup local", "rule del pref 0", rule)
    yield


@contextlib.contextmanager
def wrong_interface(network: Network, name: str) -> Iterator[None]:
    """A host with an interface that leads nowhere."""
    add = "link add wrong0 type veth peer name wrong1"
    network.hosts[name].ip(add, "address add 9.9.9.9/24 dev wrong0", "link set wrong0 up", "link set wrong1 up")
    yield


@contextlib.contextmanager
def stopping(preflight: Preflight, name: str) -> Iterator[None]:
    """A host whose ranks are stopped as soon as they run."""
    ended = threading.Event()

    def stop() -> None:
        while not ended.is_set():
            with contextlib.suppress(psutil.Error, OSError):
                for runner in psutil.Process(preflight.guests[name].pid).children():
                    for rank in runner.children(recursive=True):
                        os.kill(rank.pid, signal.SIGSTOP)
            time.sleep(0.01)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def run(
    network: Network,
    directory: Path,
    fault: contextlib.AbstractContextManager[object],
    *,
    on: Mapping[str, Mapping[str, str]] | None = None,
    trial: str = FLAGS[1],
) -> Ended:
    """Run a preflight with a fault from its start, and check what always holds. `on`: variables of some hosts."""
    flags = (*FLAGS, "--trial", trial)
    with fault, Preflight(network, directory, *flags, deadline=DEADLINE, on=on) as preflight:
        ended = preflight.wait()
        check(ended, preflight)
        return ended


def check(ended: Ended, preflight: Preflight) -> None:
    """It ends by its deadline, with nothing left, and no node untested."""
    assert ended.report.took_seconds <= DEADLINE, ended.said
    assert preflight.left_behind(ended=preflight.guests) == []
    assert ended.report.hosts(NodeState.UNKNOWN) == (), ended.said


def kinds(report: PreflightReport) -> set[PreflightKind]:
    """Return the kinds of its findings."""
    return {each.kind for each in report.findings}


def test_all_are_sound(network: Network, tmp_path: Path) -> None:
    """Nobody is accused."""
    ended = run(network, tmp_path, contextlib.nullcontext())
    assert (ended.report.verdict, ended.status, ended.bad) == (Soundness.SOUND, 0, set()), ended.said


@pytest.mark.parametrize("bad", [{"n06"}, {"n02", "n05", "n11", "n12"}, {"n08", "n09"}], ids="one four paired".split())
def test_lossy_cables(network: Network, tmp_path: Path, bad: set[str]) -> None:
    """30 % of the frames of one, of four, and of two hosts that meet in the first round.

    Most trials with such a host end by their timeout, so that this one is shorter; four take more than five minutes.
    """
    with contextlib.ExitStack() as cables:
        for name in bad:
            cables.enter_context(network.bad_cable(name, loss=0.3))
        ended = run(network, tmp_path, contextlib.nullcontext(), trial="8")
    assert (ended.bad, ended.status) == (bad, 10), ended.said


def test_a_slow_cable(network: Network, tmp_path: Path) -> None:
    """A tenth of a second each way."""
    ended = run(network, tmp_path, network.bad_cable("n03", delay_seconds=0.1))
    assert (ended.bad, ended.status) == ({"n03"}, 10), ended.said


@pytest.mark.parametrize("pair", [("n02", "n03"), ("n01", "n10")], ids=["paired", "apart"])
def test_a_dead_link(network: Network, tmp_path: Path, pair: tuple[str, str]) -> None:
    """The link is named, neither end of it is; one end is left out of the good nodes."""
    ended = run(network, tmp_path, unlinked(network, *pair))
    assert (ended.bad, ended.status) == (set(), 10), ended.said
    links = {
        each.hosts
        for each in ended.report.findings
        if each.kind in (PreflightKind.LINK_FAILS, PreflightKind.PATH_LINK_FAILS)
    }
    assert links == {pair}, ended.said
    assert len(ended.report.hosts(NodeState.GOOD)) == COUNT - 1


def test_a_closed_port(network: Network, tmp_path: Path) -> None:
    """MASTER_PORT of one host."""
    ended = run(network, tmp_path, closed_port(network, "n07"))
    assert (ended.bad, kinds(ended.report)) == ({"n07"}, {PreflightKind.PATH_FAILS}), ended.said


def test_a_wrong_interface(network: Network, tmp_path: Path) -> None:
    """The setting is named, and what to set instead."""
    ended = run(network, tmp_path, wrong_interface(network, "n04"), on={"n04": {"GLOO_SOCKET_IFNAME": "wrong0"}})
    (finding,) = ended.report.findings
    assert (ended.bad, finding.path) == ({"n04"}, "GLOO_SOCKET_IFNAME=wrong0"), ended.said
    assert "GLOO_SOCKET_IFNAME=eth0" in finding.hint


def test_a_host_that_is_down(network: Network, tmp_path: Path) -> None:
    """From the start: nothing runs there."""
    with Preflight(network, tmp_path, *FLAGS[:2], "--wait", "60", deadline=DEADLINE, without=["n13"]) as preflight:
        ended = preflight.wait()
        check(ended, preflight)
    (finding,) = ended.report.findings
    assert (finding.kind, ended.status) == (PreflightKind.NODE_ABSENT, 10)
    assert len(ended.report.hosts(NodeState.GOOD)) == COUNT - 1


def test_a_cable_that_is_pulled(network: Network, tmp_path: Path) -> None:
    """After the host has reported."""
    with Preflight(network, tmp_path, *FLAGS, deadline=DEADLINE) as preflight:
        preflight.wait_for("waiting for nodes: passed")
        with network.unplugged("n05"):
            ended = preflight.wait()
            assert ended.bad == {"n05"}, ended.said
            assert ended.report.hosts(NodeState.UNKNOWN) == ()


def test_ranks_that_stop(network: Network, tmp_path: Path) -> None:
    """A host on which every rank is stopped: trials hang, and unhang says of one why."""
    with Preflight(network, tmp_path, *FLAGS, deadline=DEADLINE) as preflight, stopping(preflight, "n10"):
        ended = preflight.wait()
        assert (ended.bad, ended.status) == ({"n10"}, 10), ended.said
        assert ended.report.hosts(NodeState.UNKNOWN) == ()
