"""Real ssh daemons on loopback ports, each a host of its own name, and the configuration that reaches them."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.build.processes.commands import command
from tests.build.processes.ports import free_port
from tests.build.processes.warm import script
from tests.needed import skip_without

_PRIVILEGE_SEPARATION = Path("/run/sshd")
"""Compiled into Debian's sshd, which wants it to be there when it runs as root."""


class Host(NamedTuple):
    """One daemon."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    folder: Path


class Cluster(NamedTuple):
    """Daemons, and how `unhang` reaches them."""

    folder: Path
    hosts: dict[str, Host]

    @property
    def options(self) -> tuple[str, ...]:
        """What to give `unhang diagnose` beside `--hosts`."""
        return ("--ssh", "--ssh-command", f"ssh -F {self.folder / 'config'}", "--remote-command", f"{self.unhang}")

    @property
    def unhang(self) -> Path:
        """The command on the other side."""
        return self.folder / "unhang"


def sshd_program() -> str:
    """Return where sshd lies; it insists on being called by its whole path."""
    skip_without("sshd", "ssh", "setpriv")
    program = shutil.which("sshd")
    assert program is not None
    return program


@contextmanager
def cluster(
    folder: Path, environments: Mapping[str, Mapping[str, str]], *, executed: Collection[str] = ()
) -> Iterator[Cluster]:
    """Run one daemon per name; what is looked at there sees that environment.

    The command on the other side is a fork of a warm process (warm.py), or, on nodes in `executed`, an interpreter.
    """
    program = sshd_program()
    if os.geteuid() == 0:
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    _make_key(folder / "user")
    hosts: dict[str, Host] = {}
    try:
        for name, environment in environments.items():
            hosts[name] = _start(program, folder, name, environment)
        _configure(folder, hosts)
        put_unhang(folder, executed=executed)
        yield Cluster(folder, hosts)
    finally:
        for host in hosts.values():
            host.process.send_signal(signal.SIGCONT)
            host.process.kill()
            host.process.wait()


def put_unhang(folder: Path, *, executed: Collection[str] = ()) -> None:
    """Put an `unhang` into a folder: forks of a warm process (warm.py), but interpreters for these names of hosts."""
    _put(folder / ("forked" if executed else "unhang"), script())
    if executed:
        own = (f'[ "$UNHANG_AGENT_HOST_NAME" != {name} ] || exec {shlex.join(command())} "$@"' for name in executed)
        _put(folder / "unhang", "\n".join(("#!/bin/sh", *own, f'exec {folder / "forked"} "$@"\n')))


def _put(program: Path, text: str) -> None:
    program.write_text(text)
    program.chmod(0o755)


def _make_key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=60)


def _start(program: str, folder: Path, name: str, environment: Mapping[str, str]) -> Host:
    here = folder / name
    here.mkdir()
    _make_key(here / "host_key")
    port = free_port()
    variables = " ".join(f'"{key}={value}"' for key, value in environment.items())
    (here / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {here / 'host_key'}\nPidFile none\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {folder / 'user.pub'}\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        f"PermitRootLogin prohibit-password\nMaxStartups 100\nAcceptEnv CASE\nSetEnv {variables}\n"
    )
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", program, "-D", "-f", str(here / "config"), "-E", str(here / "log")],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    _wait_for(port, process, here)
    return Host(name, port, process, here)


def _wait_for(port: int, process: subprocess.Popen[bytes], here: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, (here / "log").read_text()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def _configure(folder: Path, hosts: Mapping[str, Host]) -> None:
    """Write the user's own configuration: unknown hosts are refused, keys come from files here alone."""
    blocks = [
        f"Host {host.name}\n  HostName 127.0.0.1\n  Port {host.port}\n  HostKeyAlias {host.name}\n"
        for host in hosts.values()
    ]
    common = (
        f"Host *\n  IdentityFile {folder / 'user'}\n  IdentitiesOnly yes\n  IdentityAgent none\n"
        f"  UserKnownHostsFile {folder / 'known_hosts'}\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n"
    )
    (folder / "config").write_text("".join(blocks) + common)
    keys = ((host.name, (host.folder / "host_key.pub").read_text().split()[:2]) for host in hosts.values())
    (folder / "known_hosts").write_text("".join(f"{name} {kind} {key}\n" for name, (kind, key) in keys))
