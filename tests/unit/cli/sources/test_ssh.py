"""`unhang diagnose --ssh`: real daemons, real ssh; one host that fails costs itself alone."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import unhang as commands
from shared.answer.diagnosis import Diagnosis
from tests.build.processes.commands import FIRST, NOBODY, SECOND, Job, started, unhang
from tests.build.processes.sshd import Cluster, cluster
from tests.system.packaging.environments import build_zipapp

pytestmark = pytest.mark.slow

QUICK = ("--interval", "0.2", "--native", "never")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, job: Job) -> Iterator[Cluster]:
    """Two hosts with a rank each, one without, and one more for what goes wrong."""
    ranks = {"node01": FIRST, "node02": SECOND, "node03": NOBODY, "node04": NOBODY}
    folder = tmp_path_factory.mktemp("ssh")
    (folder / "tmp").mkdir()
    common = {"TMPDIR": str(folder / "tmp")}
    seen = {n: {"UNHANG_AGENT_HOST_NAME": n, "UNHANG_AGENT_ONLY_RANKS": str(ranks[n]), **common} for n in ranks}
    with cluster(folder, seen) as running:
        yield running


def diagnosed(nodes: Cluster, hosts: str, *more: str) -> Diagnosis:
    """Diagnose what runs on hosts; stderr must be quiet."""
    done = unhang("diagnose", *nodes.options, "--hosts", hosts, "--json", *QUICK, *more)
    assert done.err == ""
    return Diagnosis.model_validate_json(done.out)


def gaps(diagnosis: Diagnosis) -> dict[str | None, tuple[str, str]]:
    """Return the hosts that gave nothing, with reason and detail."""
    return {g.host: (g.missing.reason.value, g.missing.detail) for g in diagnosis.coverage.missing if g.host}


def test_all_hosts_are_looked_at_and_judged_as_one_job(nodes: Cluster) -> None:
    """Two looks of each, stacks included; a host without ranks is no failure."""
    diagnosis = diagnosed(nodes, "node[01-03]")
    assert (diagnosis.coverage.seen, diagnosis.coverage.with_stacks) == (2, 2)
    assert "node03" not in gaps(diagnosis)
    listed = unhang("jobs", *nodes.options, "--hosts", "node[01-03]", "--json")
    (summary,) = json.loads(listed.out)["jobs"]
    assert summary["hosts"] == ["node01", "node02"]


def test_views(nodes: Cluster) -> None:
    """Stacks and checks are taken the same way; one host at a time is slower, and nothing else."""
    stacks = unhang("stacks", *nodes.options, "--hosts", "node[01-02]", "--fanout", "1")
    assert (stacks.status, stacks.err) == (0, "")
    assert "wait_for_quota" in stacks.out
    assert unhang("check", *nodes.options, "--hosts", "node01").status in (0, 10, 11)


def test_no_ssh_client(nodes: Cluster) -> None:
    """That is no host's fault."""
    done = unhang("diagnose", "--ssh", "--ssh-command", "/nonexistent/ssh", "--hosts", "node[01-02]")
    assert (done.status, done.out) == (1, "")
    assert "/nonexistent/ssh cannot be run" in done.err


def test_each_failing_host_says_why_and_the_rest_is_judged(nodes: Cluster, tmp_path: Path) -> None:
    """A daemon that is stopped, a changed key, an unknown one, a login refused, nobody there, no such name."""
    hosts = nodes.hosts
    key = (hosts["node04"].folder / "host_key.pub").read_text().split()
    known = "".join(
        line for line in (nodes.folder / "known_hosts").read_text().splitlines(True) if not line.startswith("node02")
    )
    (tmp_path / "known_hosts").write_text(
        f"{known}changed {(nodes.folder / 'user.pub').read_text()}refused {key[0]} {key[1]}\n"
    )
    there = f"  HostName 127.0.0.1\n  Port {hosts['node04'].port}\n"
    (tmp_path / "config").write_text(
        f"Host changed\n{there}  HostKeyAlias changed\nHost refused\n{there}  HostKeyAlias refused\n"
        f"  PubkeyAuthentication no\nHost nobody\n  HostName 127.0.0.1\n  Port 1\nHost *\n"
        f"  UserKnownHostsFile {tmp_path / 'known_hosts'}\nInclude {nodes.folder / 'config'}\n"
    )
    os.kill(hosts["node03"].process.pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        done = unhang(
            "diagnose", "--ssh", "--ssh-command", f"ssh -F {tmp_path / 'config'}", "--ssh-option", "ConnectTimeout=10",
            "--remote-command", str(nodes.unhang), "--hosts", "node[01-03],changed,refused,nobody,none.invalid",
            "--json", *QUICK,
        )  # fmt: skip
    finally:
        os.kill(hosts["node03"].process.pid, signal.SIGCONT)
    diagnosis = Diagnosis.model_validate_json(done.out)
    assert time.monotonic() - began < 50
    assert diagnosis.coverage.seen == 1
    assert {host: reason for host, (reason, _) in gaps(diagnosis).items()} == {
        "node02": "refused",
        "node03": "timed_out",
        "changed": "refused",
        "refused": "not_permitted",
        "nobody": "unreachable",
        "none.invalid": "unreachable",
    }
    assert "differs from the one in known_hosts" in gaps(diagnosis)["changed"][1]


HOSTILE = (
    ("no-such-command", "not_found", "--remote-command"),
    ("echo hello", "unreadable", "not unhang"),
    ("echo '{}'", "unreadable", "not unhang"),
    ("echo '{\"ranks\": 7}'", "unreadable", "not a NodeSnapshot"),
    ("echo broken >&2; exit 3", "unreadable", "status 3"),
    ("yes '' | head -c 9000000", "unreadable", "not unhang"),
    ("kill -9 $$", "unreachable", "was killed"),
    ("cat /dev/zero", "refused", "larger than"),
)
NOTHING = (("sleep 100", "timed_out", "no answer within"),)


@pytest.mark.parametrize(("hostile", "seconds"), [(HOSTILE, 50), (NOTHING, 3)], ids=["much", "nothing"])
def test_hostile_answers(nodes: Cluster, tmp_path: Path, hostile: Sequence[tuple[str, str, str]], seconds: int) -> None:
    """What a host sends may be anything."""
    here = f"  HostName 127.0.0.1\n  HostKeyAlias node01\n  Port {nodes.hosts['node01'].port}\n"
    blocks = [f"Host case{number}\n{here}  SetEnv CASE={number}\n" for number in range(len(hostile))]
    (tmp_path / "config").write_text("".join(blocks) + f"Host *\nInclude {nodes.folder / 'config'}\n")
    cases = " ".join(f"{number}) {script} ;;" for number, (script, _, _) in enumerate(hostile))
    done = unhang(
        "diagnose", "--ssh", "--ssh-command", f"ssh -F {tmp_path / 'config'}", "--timeout", str(seconds),
        "--json", *QUICK, "--remote-command", f"case $CASE in {cases} esac; exit #",
        "--hosts", f"case[0-{len(hostile) - 1}]",
    )  # fmt: skip
    told = gaps(Diagnosis.model_validate_json(done.out))
    assert [told[f"case{number}"][0] for number in range(len(hostile))] == [reason for _, reason, _ in hostile]
    assert [detail for n, (_, _, detail) in enumerate(hostile) if detail not in told[f"case{n}"][1]] == []


def test_words_of_a_login_shell_are_passed_over(nodes: Cluster) -> None:
    """Many a .bashrc greets."""
    options = (*nodes.options[:3], "--remote-command", f"echo Welcome; {nodes.unhang}")
    done = unhang("diagnose", *options, "--hosts", "node01", "--json", *QUICK)
    assert Diagnosis.model_validate_json(done.out).coverage.seen == 1


def test_connection_that_breaks_off_after_the_first_look(nodes: Cluster) -> None:
    """What came is used, and what is lacking is told."""
    options = (
        *nodes.options[:3],
        "--remote-command",
        f"{nodes.unhang} snapshot -o - --stacks none --looks 1; kill -9 $$;",
    )
    done = unhang("diagnose", *options, "--hosts", "node01", "--json", *QUICK)
    diagnosis = Diagnosis.model_validate_json(done.out)
    assert diagnosis.coverage.seen == 1
    assert "only 1 of its looks arrived" in done.out


@pytest.fixture(scope="module")
def zipapp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`unhang.pyz` for this machine's Python alone: an eighth of the wheels."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}-{os.uname().machine}"
    return build_zipapp(tmp_path_factory.mktemp("zipapp"), "--for", here)


def bringing(nodes: Cluster, zipapp: Path, hosts: str) -> tuple[str, ...]:
    """Return options that leave nothing to the other side but a Python."""
    python = f"{Path(sys.executable).resolve()} -S -E -s"
    return (*nodes.options[:3], "--with-zipapp", str(zipapp), "--remote-command", python, "--hosts", hosts)


def test_hosts_with_nothing_but_python(nodes: Cluster, zipapp: Path) -> None:
    """The program travels over standard input, and nothing of it stays there."""
    done = unhang("diagnose", *bringing(nodes, zipapp, "node[01-02]"), "--json", *QUICK)
    coverage = Diagnosis.model_validate_json(done.out).coverage
    assert (coverage.seen, coverage.with_stacks) == (2, 2)
    assert list((nodes.folder / "tmp").iterdir()) == []


def test_what_is_brought_along_is_removed_when_nobody_waits_for_it(nodes: Cluster, zipapp: Path) -> None:
    """The one who asked is killed, and says nothing to the host."""
    deadline = time.monotonic() + 60
    with started("diagnose", *bringing(nodes, zipapp, "node01"), "--interval", "444.5") as process:
        while not list((nodes.folder / "tmp").iterdir()):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    while list((nodes.folder / "tmp").iterdir()) or _with_argument("444.5"):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_file_that_is_no_zipapp(nodes: Cluster) -> None:
    """Said before anybody is asked."""
    done = unhang("diagnose", *nodes.options, "--hosts", "node01", "--with-zipapp", __file__)
    assert (done.status, done.out) == (1, "")
    assert "not a zipapp" in done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name)
def test_nothing_is_left_behind(nodes: Cluster, number: signal.Signals) -> None:
    """Neither ssh here nor the command there outlives the one who asked, however that one ends."""
    marker = f"{500 + number}.25"
    asked = ("diagnose", *nodes.options, "--hosts", "node[01-02]", "--interval", marker)
    deadline = time.monotonic() + 60
    with started(*asked, executed=number == signal.SIGINT) as process:
        while len(_with_argument(marker, "--end-with-stdin")) < 2:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        process.send_signal(number)
        _, err = process.communicate(50)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in err
    while left := _with_argument(marker):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _with_argument(*arguments: str) -> list[str]:
    """Return the command lines that have these arguments, or a remote command that holds them."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                line = (folder / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
            except OSError:
                continue
            if all(argument in line for argument in arguments) and not line.startswith(("ssh ", "sh -c", "bash -c")):
                found.append(line)
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ("--hosts", "node01"),
        ("--ssh",),
        ("--ssh", "--hosts", "a", "--slurm", "1"),
        ("--ssh", "--hosts", "a", "--from", "."),
        ("--ssh", "--hosts", ""),
    ],
)
def test_called_wrongly(arguments: tuple[str, ...]) -> None:
    """Said in a line, with status 2."""
    assert CliRunner().invoke(commands, ["diagnose", *arguments]).exit_code == 2


@pytest.mark.parametrize("hosts", ["-oProxyCommand=reboot", "a;b", "http://a", "a[1-2", "$(reboot)", "a b`c`"])
def test_names_that_are_no_hosts(hosts: str) -> None:
    """None reaches ssh, least of all as an option."""
    done = CliRunner().invoke(commands, ["diagnose", "--ssh", f"--hosts={hosts}"])
    assert done.exit_code == 1
    assert "node[01-16]" in done.output
