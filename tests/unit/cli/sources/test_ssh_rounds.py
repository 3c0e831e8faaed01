"""The second round over ssh: native stacks of the few that need them, where time is left."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.sources.ssh_command import Way
from cli.sources.ssh_gathering import SshGathering
from collector.files.read_directory import read_directory
from collector.looks.next_looks import FurtherLooks
from collector.question import NativePolicy, Question, Stage, Step
from shared.answer.diagnosis import Diagnosis
from shared.wire.snapshot import NodeSnapshot
from shared.wire.stacks import Stacks
from tests.build.agents.fake_agents import make_rank
from tests.build.processes.commands import (
    LOCKED,
    LOCKED_OUT,
    NOBODY,
    SLEEPER,
    Job,
    sleeping_job,
    started,
    unhang,
)
from tests.build.processes.sshd import Cluster, cluster

pytestmark = [pytest.mark.ptrace, pytest.mark.slow]

HOSTS = ("node01", "node02", "node03")
ALL, WITH_RANKS = "node[01-03]", "node[01-02]"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """One rank asleep, and one whose Python stack does not say what it waits for."""
    log = tmp_path_factory.mktemp("rounds") / "rank.log"
    with sleeping_job("rounds", (SLEEPER, LOCKED_OUT), log=log, programs={LOCKED_OUT: LOCKED}) as running:
        yield running


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, ranks: Job) -> Iterator[Cluster]:
    """A host for each rank, and one without."""
    here = dict(zip(HOSTS, (SLEEPER, LOCKED_OUT, NOBODY), strict=True))
    seen = {n: {"UNHANG_AGENT_HOST_NAME": n, "UNHANG_AGENT_ONLY_RANKS": str(here[n])} for n in HOSTS}
    with cluster(tmp_path_factory.mktemp("ssh"), seen) as running:
        yield running


class Client:
    """An ssh that writes down whom it visits, and may do something else on a second visit."""

    def __init__(self, nodes: Cluster, folder: Path, again: str = 'exec ssh "$@"', hosts: str = ALL) -> None:
        self._log = folder / "visits"
        program = folder / "ssh"
        program.write_text(
            f'#!/bin/sh\necho "$*" >> {self._log}\ncase "$*" in *" --pid "*) {again} ;; esac\nexec ssh "$@"\n'
        )
        program.chmod(0o755)
        self.options = ("--ssh", "--ssh-command", f"{program} -F {nodes.folder / 'config'}",
                        "--remote-command", str(nodes.unhang), "--hosts", hosts)  # fmt: skip

    def visits(self) -> list[str]:
        """Return the hosts in the order in which they were visited, with what was asked of single processes."""
        lines = self._log.read_text().splitlines()
        return [host for line in lines for host in HOSTS if f" -- {host} " in line]

    def asked(self) -> list[str]:
        """Return the visits that concerned single processes."""
        return [line for line in self._log.read_text().splitlines() if " --pid " in line]


def diagnosed(client: Client, *more: str) -> Diagnosis:
    """Diagnose without a complaint on stderr."""
    done = unhang("diagnose", *client.options, "--json", "--interval", "0.2", *more)
    assert [line for line in done.err.splitlines() if not line.startswith("kept in ")] == []
    return Diagnosis.model_validate_json(done.out)


def read_natively(folder: Path) -> list[int]:
    """Return the ranks of which a kept bundle has native stacks."""
    snapshots, _ = read_directory(folder)
    seen = (rank for snapshot in snapshots for rank in snapshot.ranks)
    return [rank.identity.rank for rank in seen if isinstance(rank.stacks, Stacks) and rank.stacks.native]


def test_native_stacks_of_the_rank_that_the_verdict_asks_about(nodes: Cluster, ranks: Job, tmp_path: Path) -> None:
    """Its host is visited a second time, for that process alone; the others are left in peace."""
    client = Client(nodes, tmp_path)
    diagnosis = diagnosed(client, "--looks", "1", "--save", str(tmp_path / "kept"))
    assert sorted(client.visits()) == ["node01", "node02", "node02", "node03"]
    (line,) = client.asked()
    assert f" --pid {ranks.ranks[1].pid}" in line
    assert "--stacks native" in line
    assert read_natively(tmp_path / "kept") == [LOCKED_OUT]
    assert (diagnosis.coverage.seen, diagnosis.coverage.with_stacks) == (2, 2)


def test_nobody_is_visited_twice_who_need_not(nodes: Cluster, tmp_path: Path) -> None:
    """`--native never` is kept, and one look takes no further ones."""
    client = Client(nodes, tmp_path)
    diagnosed(client, "--looks", "1", "--native", "never")
    assert sorted(client.visits()) == list(HOSTS)


def test_native_stacks_of_all(nodes: Cluster, tmp_path: Path) -> None:
    """Of every rank once, after the plain looks."""
    client = Client(nodes, tmp_path)
    diagnosed(client, "--looks", "1", "--native", "all", "--save", str(tmp_path / "kept"))
    assert sorted(read_natively(tmp_path / "kept")) == [SLEEPER, LOCKED_OUT]
    assert client.asked() == []


def test_second_visit_that_fails_costs_nothing_but_itself(nodes: Cluster, tmp_path: Path) -> None:
    """The host has answered: it is no node that is silent, and what came before stands."""
    client = Client(nodes, tmp_path, again="echo 'Connection refused' >&2; exit 255", hosts=WITH_RANKS)
    diagnosis = diagnosed(client, "--looks", "1")
    (gap,) = [gap for gap in diagnosis.coverage.missing if gap.missing.source == "ssh node02"]
    assert gap.missing.reason == "unreachable"
    assert gap.missing.detail.startswith("native stacks: ")
    assert diagnosis.coverage.seen == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name)
def test_nothing_is_left_behind_in_the_second_round(nodes: Cluster, tmp_path: Path, number: signal.Signals) -> None:
    """Whoever asks is ended while a host reads native stacks that never come."""
    pid_file, slow = tmp_path / "pids", tmp_path / "slow"
    endless = "snapshot -o - --end-with-stdin --allow-empty --looks 2 --interval 555"
    slow.write_text(f"#!/bin/sh\necho $$ >> {pid_file}\nexec {nodes.unhang} {endless}\n")
    slow.chmod(0o755)
    again = f"host=node02; exec ssh -F {nodes.folder / 'config'} $host {slow}"
    client = Client(nodes, tmp_path, again=again, hosts=WITH_RANKS)
    deadline = time.monotonic() + 60
    with started("diagnose", *client.options, "--looks", "1", executed=number == signal.SIGTERM) as process:
        while not (pid_file.exists() and pid_file.read_text().strip()):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        _, err = process.communicate(30)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in err
    there = int(pid_file.read_text().split()[0])
    while Path(f"/proc/{there}").exists() or _clients_of(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _clients_of(folder: Path) -> list[str]:
    """Return the ssh clients here that ran something of this folder."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            words = (each / "cmdline").read_bytes().split(b"\0") if each.name.isdecimal() else []
        except OSError:
            continue
        if words and words[0] == b"ssh" and any(os.fsencode(folder) in word for word in words):
            found.append(each.name)
    return found


def canned(folder: Path) -> tuple[str, ...]:
    """Return a client that writes down what it is told, and gives as many looks at one rank as it is asked for."""
    rank = make_rank(0, host="node01").model_copy(update={"looked_at_ns": 10**9})
    look = NodeSnapshot(host="node01", taken_at_ns=10**9, ranks=(rank,))
    (folder / "look").write_text(look.model_dump_json() + "\n")
    client = folder / "ssh"
    client.write_text(
        f'#!/bin/sh\necho "$*" >> {folder / "visits"}\nleft=$(echo "$*" | sed "s/.*--looks \\([0-9]*\\).*/\\1/")\n'
        f'while [ "$left" -gt 0 ]; do cat {folder / "look"}; left=$((left - 1)); done\n'
    )
    client.chmod(0o755)
    return (str(client),)


@pytest.mark.parametrize(("seconds", "visits"), [(0.9, 1), (60.0, 2)], ids=["no time left", "time left"])
async def test_deadline_of_all_rounds(seconds: float, visits: int, tmp_path: Path) -> None:
    """What is known by then is what there is; nobody is visited again just to be cut off."""
    gathering = SshGathering(Way(client=canned(tmp_path)), most_at_once=4, timeout_seconds=seconds)
    seen = await gathering.gather(["node01"], Question(looks=1))
    assert (tmp_path / "visits").read_text().count("snapshot") == visits
    assert len(seen.snapshots) in (0, 1) if visits == 1 else len(seen.snapshots) == 2


@pytest.mark.parametrize("pauses", [(), (0.01,), (0.1,) * 8], ids=["no doubt", "a doubt", "a straggler"])
async def test_further_looks(pauses: tuple[float, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as would decide, in one more visit, which begins with one."""
    further = [FurtherLooks(pauses), FurtherLooks()]
    monkeypatch.setattr("cli.sources.ssh_gathering.further_looks", lambda *_: further.pop(0))
    gathering = SshGathering(Way(client=canned(tmp_path)), most_at_once=4)
    seen = await gathering.gather(["node01"], Question(looks=2, native=NativePolicy.NEVER))
    visits = (tmp_path / "visits").read_text().splitlines()
    assert len(seen.snapshots) == (3 + len(pauses) if pauses else 2)
    assert len(visits) == (2 if pauses else 1)
    assert not pauses or f"--looks {1 + len(pauses)} --interval {pauses[-1]:g}" in visits[1]


@pytest.mark.parametrize(("patience", "visits"), [(0.0, 1), (9.0, 4)], ids=["none", "patient"])
async def test_patience(patience: float, visits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only time decides the hosts are visited until it has, or until patience would not reach as far."""
    further = [FurtherLooks((0.01,), left, "to see what moves") for left in (0.9, 0.6, 0.3)] + [FurtherLooks()]
    monkeypatch.setattr("cli.sources.ssh_gathering.further_looks", lambda *_: further.pop(0))
    said: list[Step] = []
    gathering = SshGathering(Way(client=canned(tmp_path)), most_at_once=4, progress=said.append)
    await gathering.gather(["node01"], Question(native=NativePolicy.NEVER, patience_seconds=patience))
    assert len((tmp_path / "visits").read_text().splitlines()) == visits
    waits = [step.seconds for step in said if step.stage is Stage.WAITING and not step.finished]
    assert waits == [0.9, 0.6, 0.3][: visits - 1]
