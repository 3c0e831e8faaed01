"""Ranks in network namespaces of their own, as containers have them."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.tools.netns import connect
from shared.missing import Missing, Reason
from shared.server.addresses import Address
from tests.build.processes.ports import free_port
from tests.build.processes.processes import find_rank
from tests.system.ras.ranks import REPOSITORY, ask_ras, ras_rank


@contextmanager
def namespace(name: str) -> Iterator[str]:
    """A network namespace with a loopback of its own."""
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        subprocess.run(["ip", "-n", name, "addr", "add", "10.77.3.14/32", "dev", "lo"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.mark.needs("ip")
@pytest.mark.root
def test_a_container_is_entered(tmp_path: Path) -> None:
    """The rank listens on its own loopback; here nobody does."""
    port = free_port()
    inside = ("ip", "netns", "exec")
    with (
        namespace(f"unhang-ras-{os.getpid()}") as name,
        ras_rank(tmp_path, port=port, command=(*inside, name)) as process,
    ):
        rank = find_rank(process.pid)
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            pass
        look, missing = ask_ras([rank])
    assert missing == () and look is not None
    assert process.pid in {peer.pid for peer in look.networks[0].peers}
    assert look.addresses == ("10.77.3.14",)


@pytest.mark.needs("ip", "setpriv")
@pytest.mark.root
def test_a_container_that_may_not_be_entered(tmp_path: Path) -> None:
    """Without CAP_SYS_ADMIN that is told, with what to do."""
    port = free_port()
    program = (
        "from tests.system.ras.ranks import ask_ras; from tests.build.processes.processes import find_rank; "
        "print(ask_ras([find_rank({pid})])[1][0].model_dump_json())"
    )
    drop = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")
    with (
        namespace(f"unhang-ras-no-{os.getpid()}") as name,
        ras_rank(tmp_path, port=port, command=("ip", "netns", "exec", name)) as process,
    ):
        told = subprocess.run(
            [*drop, sys.executable, "-c", program.format(pid=process.pid)],
            check=True, capture_output=True, text=True, cwd=REPOSITORY, timeout=60,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )  # fmt: skip
    missing = Missing.model_validate_json(told.stdout)
    assert missing.reason is Reason.NOT_PERMITTED
    assert "CAP_SYS_ADMIN" in missing.detail


def test_a_closed_door() -> None:
    with pytest.raises(Unavailable, match="refused"):
        connect(Address("127.0.0.1", free_port()), ProcFs(), os.getpid(), Deadline(2))
