"""`unhang preflight` as people start it: on a cluster with a bad node, under torchrun, and on one machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cli.preflight.channel import SILENCE_SECONDS
from shared.answer.preflight import NodeState, PreflightKind, PreflightReport, Soundness
from tests.needed import skip_without
from tests.system.e2e.cluster import lacking_for_hosts
from tests.system.e2e.network import Network
from tests.system.live.asking import unhang
from tests.system.preflight.nodes import Preflight, names, talking

pytestmark = [pytest.mark.live, pytest.mark.steady, pytest.mark.slow]

END_SECONDS = 240.0


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Five hosts."""
    skip_without("ip")
    lacking = lacking_for_hosts()
    if lacking:
        pytest.skip(f"needs namespaces of its own: {lacking}")
    with Network(*names(5), directory=tmp_path) as network:
        yield network


@pytest.mark.root
def test_a_node_with_a_wrong_interface_and_one_with_a_closed_port(network: Network, tmp_path: Path) -> None:
    """Both are named, with what is wrong; all others are good, and nothing is left on any host."""
    lost, closed = "n02", "n04"
    add = "link add wrong0 type veth peer name wrong1"
    network.hosts[lost].ip(add, "address add 9.9.9.9/24 dev wrong0", "link set wrong0 up", "link set wrong1 up")
    rule = "rule add pref 0 iif eth0 ipproto tcp dport 29500 blackhole"
    network.hosts[closed].ip("rule add pref 1 lookup local", "rule del pref 0", rule)
    variables = {lost: {"GLOO_SOCKET_IFNAME": "wrong0"}}
    with Preflight(
        network, tmp_path, "--wait", "200", "--slow", "1000", on=variables, deadline=400.0, forked=True
    ) as preflight:
        ended = preflight.wait()
        left = preflight.left_behind(ended=preflight.guests)
    assert (ended.bad, ended.status, left) == ({lost, closed}, 10, []), ended.said
    found = {each.hosts: each for each in ended.report.findings}
    assert found[lost,].path == "GLOO_SOCKET_IFNAME=wrong0" and "GLOO_SOCKET_IFNAME=eth0" in found[lost,].hint
    assert (found[closed,].kind, found[closed,].path) == (PreflightKind.PATH_FAILS, "port 29500")
    assert (tmp_path / "out" / "bad_nodes").read_text().split() == [lost, closed]
    assert (tmp_path / "out" / "good_nodes").read_text().split() == ["n00", "n01", "n03"]


@pytest.mark.root
def test_a_host_that_never_reports_and_has_the_address_of_another(network: Network, tmp_path: Path) -> None:
    """The node whose packets reach it is not accused, nor is the silent one: nothing shows which is wrong."""
    own, taken = network.addresses["n04"], network.addresses["n02"]
    network.hosts["n04"].ip(f"address del {own}/24 dev eth0", f"address add {taken}/24 dev eth0")
    others = [network.addresses[name] for name in ("n00", "n01", "n03")]
    flags = ("--wait", "15", "--trial", "10", "--slow", "1000")
    with Preflight(network, tmp_path, *flags, without=["n04"], deadline=200.0, forked=True) as preflight:
        preflight.wait_until_connected("n02")
        with talking(network.hosts["n04"], others, tmp_path):
            ended = preflight.wait()
    assert (ended.bad, ended.status) == (set(), 10), ended.said
    (finding,) = ended.report.findings
    assert (finding.kind, finding.hosts) == (PreflightKind.SAME_ADDRESS, ("n02", "node 4")), ended.said
    assert taken in finding.text and "MAC" in finding.text and finding.evidence, finding
    assert ended.report.hosts(NodeState.GOOD) == ("n00", "n01", "n03"), ended.said


@pytest.mark.root
def test_a_node_with_another_token(network: Network, tmp_path: Path) -> None:
    """It says so, and is not called bad: nothing is known of it."""
    on = {"n03": {"UNHANG_PREFLIGHT_TOKEN": "of-another-preflight-0123456789"}}
    with Preflight(
        network, tmp_path, "--wait", "15", "--slow", "1000", on=on, deadline=200.0, forked=True
    ) as preflight:
        ended = preflight.wait()
        assert preflight.guests["n03"].status == 1 and "the coordinator has another token" in preflight.said("n03")
    assert (ended.bad, ended.status) == (set(), 12), ended.said
    (finding,) = ended.report.findings
    assert finding.kind is PreflightKind.NOT_TOLD_APART and "another token came" in finding.text
    assert "UNHANG_PREFLIGHT_TOKEN" in finding.hint
    assert ended.report.hosts(NodeState.GOOD) == ("n00", "n01", "n02", "n04"), ended.said


@pytest.mark.root
def test_a_coordinator_that_vanishes(network: Network, tmp_path: Path) -> None:
    """Its machine loses power: no connection is closed. All other nodes end, with the reason, and leave nothing."""
    others = ("n01", "n02", "n03", "n04")
    with Preflight(network, tmp_path, "--wait", "200", deadline=600.0, forked=True) as preflight:
        preflight.wait_for("waiting for nodes: passed")
        with network.unplugged("n00"):
            gone = time.monotonic()
            left = preflight.left_behind(ended=others)
            took = time.monotonic() - gone
            assert left == [] and took < SILENCE_SECONDS + 60, took
    for name in others:
        assert preflight.guests[name].status == 1
        assert f"n00:8473 is gone: nothing came from it for {SILENCE_SECONDS:.0f} s" in preflight.said(name)


def _environment(**variables: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNHANG", "MASTER"))}
    return own | {"OMP_NUM_THREADS": "1"} | variables


def _run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=_environment(**variables), capture_output=True, text=True, timeout=END_SECONDS)


def test_one_machine_under_torchrun() -> None:
    """Only one task of a node takes part; without GPUs it runs, and says what it could not test."""
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python")
    done = _run(*command, *unhang("preflight", "--json", "--python", sys.executable))
    report = PreflightReport.model_validate_json(
        next(line for line in done.stdout.splitlines() if line.startswith("{"))
    )
    assert (report.verdict, done.returncode) == (Soundness.SOUND, 0), done.stderr
    assert len(report.nodes) == 1
    assert any(line.startswith("GPUs") for line in report.untested)
    assert any(line.startswith("the network") for line in report.untested)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_it_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    """However it ends, so do its trials, and the Python that runs them."""
    mark = str(tmp_path)
    with subprocess.Popen(
        unhang("preflight", "--python", sys.executable),
        env=_environment(TMPDIR=mark),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        until = time.monotonic() + END_SECONDS
        while not psutil.Process(process.pid).children(recursive=True) and time.monotonic() < until:
            time.sleep(0.02)
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        process.wait(END_SECONDS)
    assert started
    _, alive = psutil.wait_procs(started, timeout=END_SECONDS)
    assert alive == []


def test_a_python_without_pytorch(tmp_path: Path) -> None:
    """The node is not accused of it, and the advice is to name another Python."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -S -E -c 'import sys; exec(sys.argv[1])' \"$3\"\n")
    python.chmod(0o700)
    done = _run(*unhang("preflight", "--json", "--python", str(python)))
    report = PreflightReport.model_validate_json(done.stdout)
    assert (done.returncode, report.hosts(NodeState.BAD)) == (12, ()), done.stderr
    (finding,) = report.findings
    assert "cannot import PyTorch" in finding.text
    assert "--python" in finding.hint
