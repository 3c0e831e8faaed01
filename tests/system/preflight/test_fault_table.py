"""Six hosts with a management and a data network, real sshd, and faults: who is named, of what, in how many seconds.

Run by `make preflight`; docs/preflight.md has the table that this prints.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.answer.preflight import NodeState, PreflightKind, PreflightReport
from tests.build.processes import warm
from tests.needed import skip_without
from tests.system.e2e.cluster import lacking_for_hosts
from tests.system.e2e.network import Network
from tests.system.live.asking import unhang
from tests.system.live.fork_server import fork_server
from tests.system.preflight.faults import FAULTS, Fault
from tests.system.slurm.sshd import serve_ssh

pytestmark = [pytest.mark.bench, pytest.mark.root, pytest.mark.needs("sshd"), pytest.mark.timeout(400)]

HOSTS = tuple(f"n{number}" for number in range(6))
SECONDS = 120.0
"""On a machine of two cores that also does other things."""


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Six hosts with sshd, new for each fault."""
    skip_without("ip")
    if lacking := lacking_for_hosts():
        pytest.skip(f"needs namespaces of its own: {lacking}")
    with Network(*HOSTS, directory=tmp_path, data=True) as network:
        yield network


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault(fault: Fault, network: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, nobody else is, and its cause is told."""
    over = [word for option in serve_ssh(network, tmp_path) for word in ("--ssh-option", option)]
    programs = {"unhang": warm.script(), "python": fork_server().script()}
    if "CPU" in fault.name:  # forks would not be held back with the host that they are asked for on
        words = " ".join(f"'{word}'" if '"' in word else f'"{word}"' for word in unhang())
        programs = {"unhang": f'#!/bin/sh\nexec {words} "$@"\n', "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n'}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o700)
    over += ["--ssh-option", "ConnectTimeout=5", "--remote-command", str(tmp_path / "unhang")]
    hosts = ("--hosts", ",".join(network.addresses.values()))
    asked = unhang("preflight", "--json", "--ssh", *hosts, "--python", str(tmp_path / "python"), "--trial", "15", *over)
    with fault.make(network):
        began = time.monotonic()
        done = subprocess.run(
            network.hosts["n0"].inside(*asked), env=dict(os.environ), capture_output=True, text=True, timeout=300
        )
        took = time.monotonic() - began
    assert done.stdout, done.stderr
    report = PreflightReport.model_validate_json(done.stdout)
    name_of = {address: name for name, address in network.addresses.items()}
    bad = {name_of[host] for host in report.hosts(NodeState.BAD)}
    links = {tuple(name_of[h] for h in f.hosts) for f in report.findings if "link" in f.kind}
    said = " ".join(" ".join((f.text, f.path, f.hint, *f.evidence)) for f in report.findings)
    lacking = [word for word in fault.words if not re.search(word, said)]
    named = ", ".join([*sorted(bad), *("–".join(link) for link in sorted(links))])
    with capsys.disabled():
        print(f"\n| {fault.name} | {named} | {'; '.join(f.text for f in report.findings)[:200]} | {took:.0f} |")
    print(done.stderr, report.model_dump_json(indent=1), sys.version)
    assert (bad, links) == (set(fault.bad), set(fault.links))
    assert lacking == []
    assert took < SECONDS
    open_ones = {PreflightKind.NOT_TOLD_APART, PreflightKind.FAILS_AT_SCALE}
    assert not open_ones & {each.kind for each in report.findings}
