"""The logs of containers, in folders as kubelet lays them out."""

from pathlib import Path

import pytest

from agent.proc.procfs import ProcFs
from agent.sources.logs.pod_logs import pod_logs
from shared.formats.logs.container_lines import printed
from shared.formats.logs.parse import find_events
from shared.wire.log_events import EventKind
from tests.build.processes.proc_trees import add_process, make_tree

UID, OTHER_UID = "3b1e2c4d-5f60-7182-93a4-b5c6d7e8f901", "3b1e2c4d-5f60-7182-93a4-b5c6d7e8f902"
CONTAINER = "8d9f0c" + "0123456789abcdef" * 3 + "0123456789"
LINK = f"trainer-0_ml_pytorch-{CONTAINER}.log"
LOG = f"/var/log/pods/ml_trainer-0_{UID}/pytorch/0.log"
CRI = "2026-11-23T00:00:02.123456789Z stderr F "


def node_with(tmp_path: Path, *, link: str = LINK, target: str = LOG, above: str = "") -> ProcFs:
    """A node whose process 7 runs in a container, seen from where only /proc is the node's."""
    root = tmp_path / "node"
    (root / "var/log/containers").mkdir(parents=True)
    (root / "var/log/containers" / link).symlink_to(target)
    log = root / target.removeprefix("/")
    log.parent.mkdir(parents=True)
    log.write_text(f"{CRI}ValueError: no shard\n")
    proc = make_tree(tmp_path / "proc")
    add_process(proc, 7, 1, {})
    (proc / "1" / "root").symlink_to(root)
    (proc / "7" / "cgroup").write_text(f"0::{above}/kubepods/pod{UID}/{CONTAINER}\n")
    return ProcFs(proc)


def test_log_of_the_ranks_own_container(tmp_path: Path) -> None:
    """It is found by the container's id, and read below the node's root."""
    ((path, opening),) = pod_logs(node_with(tmp_path), 7)
    assert path == LOG
    with opening() as opened, open(opened, closefd=False) as file:
        assert file.read() == f"{CRI}ValueError: no shard\n"


@pytest.mark.parametrize(
    "changed",
    [
        {"target": LOG.replace(UID, OTHER_UID)},
        {"target": "/etc/shadow"},
        {"target": f"/var/log/pods/ml_trainer-0_{UID}/../../secret/0.log"},
        {"link": LINK.replace("8d9f", "8d9e")},
        {"above": "/user.slice/user-1000.slice"},
    ],
)
def test_nothing_else_is_taken_for_it(tmp_path: Path, changed: dict[str, str]) -> None:
    """Another pod's, what a link leads to elsewhere, another container's, and a group that a user has named so."""
    assert not list(pod_logs(node_with(tmp_path, **changed), 7))


def test_process_outside_of_pods(tmp_path: Path) -> None:
    """There is nothing to look up."""
    proc = make_tree(tmp_path / "proc")
    add_process(proc, 7, 1, {})
    (proc / "7" / "cgroup").write_text("0::/user.slice\n")
    assert not list(pod_logs(ProcFs(proc), 7))


def test_lines_of_containers_are_read_as_the_program_printed_them() -> None:
    """Exceptions are told by lines that begin at their first character."""
    lines = ["Traceback (most recent call last):", '  File "x.py", line 9, in <module>', "ValueError: no shard"]
    docker = [
        '{"log":' + f'"{line}\\n"'.replace('"x.py"', '\\"x.py\\"') + ',"stream":"stderr","time":"x"}' for line in lines
    ]
    for marked in ([CRI + line for line in lines], docker):
        (event,) = find_events(marked, path="0.log", rank=0)
        assert (event.kind, event.fields["message"]) == (EventKind.EXCEPTION, "no shard")


def test_half_a_character_in_such_a_line() -> None:
    """JSON can write it, and nothing can send or show it."""
    assert printed('{"log":"loss \\ud800\\n","stream":"stderr","time":"x"}') == "loss ?"


@pytest.mark.parametrize(
    "line", ["", '{"log":"', '{"log":"x"', '{"log":"x",}', '{"log":"' + "[" * 100_000, "2026-11-23T"]
)
def test_what_only_begins_like_such_a_line(line: str) -> None:
    """Is left as it is."""
    assert printed(line) == line
