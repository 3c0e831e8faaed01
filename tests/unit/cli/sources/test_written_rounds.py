"""Each node writes its looks: the commands of docs/without-a-service.md as they stand there, and one verdict on all."""

import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from collector.files.read_directory import read_directory
from shared.answer.diagnosis import Diagnosis
from shared.wire.stacks import Stacks
from tests.build.processes.commands import (
    LOCKED,
    LOCKED_OUT,
    NOBODY,
    REPOSITORY,
    SLEEPER,
    Job,
    environment,
    sleeping_job,
    unhang,
)
from tests.build.processes.sshd import Cluster, cluster, put_unhang
from tests.needed import skip_without

pytestmark = [pytest.mark.ptrace, pytest.mark.slow]

GUIDE = REPOSITORY / "docs" / "without-a-service.md"
RANKS = {"node01": str(SLEEPER), "node02": str(LOCKED_OUT), "node03": str(NOBODY)}


@pytest.fixture(scope="module", autouse=True)
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """One rank asleep, and one that needs a native look."""
    log = tmp_path_factory.mktemp("written") / "rank.log"
    with sleeping_job("written", (SLEEPER, LOCKED_OUT), log=log, programs={LOCKED_OUT: LOCKED}) as running:
        yield running


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three hosts with `unhang` on the path of whoever logs in."""
    folder = tmp_path_factory.mktemp("ssh")
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    seen = {n: {**path, "UNHANG_AGENT_HOST_NAME": n, "UNHANG_AGENT_ONLY_RANKS": RANKS[n]} for n in RANKS}
    with cluster(folder, seen) as running:
        yield running


def documented(tool: str, looks: Path) -> str:
    """Return the guide's line for a tool, with our hosts and directory in the place of its."""
    (line,) = re.findall(rf"^    ({tool} .*)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert "/shared/incident" in line
    return line.replace("JOBID", "77").replace("node[01-64]", "node[01-03]").replace("/shared/incident", str(looks))


def folder_with_unhang(folder: Path, *, executed: Collection[str] = ()) -> Path:
    """Make a folder for programs, with `unhang` in it: forks, but interpreters of their own on nodes in `executed`."""
    programs = folder / "bin"
    programs.mkdir()
    put_unhang(programs, executed=executed)
    return programs


def pdsh(nodes: Cluster) -> dict[str, str]:
    """Return the variables with which pdsh goes to the daemons."""
    skip_without("pdsh")
    return {"PDSH_RCMD_TYPE": "ssh", "PDSH_SSH_ARGS_APPEND": f"-F {nodes.folder / 'config'}"}


def clush(nodes: Cluster, folder: Path) -> dict[str, str]:
    """Return the variables with which clush, of the environment that runs the tests, goes to the daemons."""
    (folder / "clush.conf").write_text(f"[Main]\nssh_options: -F {nodes.folder / 'config'}\n", encoding="ascii")
    return {"CLUSTERSHELL_CFGDIR": str(folder)}


def run(line: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line of the documents in a shell that finds the programs of `folder` first."""
    paths = (str(folder), str(Path(sys.executable).parent), os.environ["PATH"])
    env = environment({**variables, "PATH": os.pathsep.join(paths)})
    return subprocess.run(
        ("sh", "-c", line), cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )


def assert_all_nodes_are_judged(looks: Path) -> None:
    """Two looks of each node and the native ones of the one rank that needs them, and a verdict on all."""
    names = sorted(path.name[:6] for path in looks.iterdir())
    assert names == ["node01"] * 2 + ["node02"] * 3 + ["node03"] * 2
    snapshots, missing = read_directory(looks)
    native = [r.identity.rank for s in snapshots for r in s.ranks if isinstance(r.stacks, Stacks) and r.stacks.native]
    assert (native, missing) == ([LOCKED_OUT], ())
    diagnosis = Diagnosis.model_validate_json(unhang("diagnose", "--from", str(looks), "--json").out)
    assert (diagnosis.coverage.seen, diagnosis.coverage.with_stacks) == (2, 2)
    gaps = [gap for gap in diagnosis.coverage.missing if gap.host in RANKS]
    assert not [gap for gap in gaps if "was not searched for process groups" not in gap.missing.detail]  # other tests'


def test_pdsh(nodes: Cluster, tmp_path: Path) -> None:
    """The real one, over real ssh."""
    programs = folder_with_unhang(tmp_path)
    done = run(documented("pdsh", tmp_path / "looks"), programs, pdsh(nodes))
    assert (done.returncode, done.stderr) == (0, "")
    assert_all_nodes_are_judged(tmp_path / "looks")


def test_clush(nodes: Cluster, tmp_path: Path) -> None:
    """The real one, over real ssh."""
    programs = folder_with_unhang(tmp_path)
    done = run(documented("clush", tmp_path / "looks"), programs, clush(nodes, programs))
    assert (done.returncode, done.stderr) == (0, "")
    assert_all_nodes_are_judged(tmp_path / "looks")
