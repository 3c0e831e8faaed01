"""A PostgreSQL server of the tests' own: on a socket in a directory of its own, as a user without rights."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

from tests.build.processes.memory_files import in_memory

START_SECONDS = 60


class Postgres:
    """A server that runs."""

    def __init__(self, folder: Path, server: int) -> None:
        self.folder = folder
        self._server = server

    def new_database(self, *, like: str | None = None) -> str:
        """Make an empty database, or one like another that nobody uses now, and return its URL."""
        name = f"t{uuid.uuid4().hex}"
        self.run(f"CREATE DATABASE {name}" + ("" if like is None else f" TEMPLATE {_name_in(like)}"))
        return f"postgresql://unhang@/{name}?host={self.folder}"

    def run(self, statement: str) -> None:
        """Run one statement as the superuser."""
        with psycopg.connect(host=str(self.folder), user="unhang", dbname="postgres", autocommit=True) as connection:
            connection.execute(statement.encode())

    def allow(self, url: str, *, connections: bool) -> None:
        """Let a database be used, or end all connections to it and refuse new ones: an outage of one test's own."""
        name = _name_in(url)
        self.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {str(connections).lower()}")
        if not connections:
            self.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all processes of the server, connections open: the kernel takes what is sent, and nobody reads it."""
        server = psutil.Process(self._server)
        processes = [server, *server.children()]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()


def _name_in(url: str) -> str:
    return url.split("?")[0].rpartition("/")[2]


def find_binaries() -> Path | None:
    """Return the folder of PostgreSQL's server programs: Debian keeps them off PATH."""
    on_path = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if debian:
        return debian[-1].parent
    return None if on_path is None else Path(on_path).resolve().parent


@contextmanager
def running_postgres(binaries: Path) -> Iterator[Postgres]:
    """Start a server that keeps nothing beyond the block. It refuses to be root, so that root starts it as nobody.

    Each database is three hundred files.
    """
    folder = Path(tempfile.mkdtemp(prefix="unhang-pg-", dir=in_memory()))
    user = None
    if os.geteuid() == 0:
        user = "nobody"
        os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    group = None if user is None else pwd.getpwnam(user).pw_gid
    data = folder / "data"
    quick = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=16MB", "-c", "max_connections=60"]
    where = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
    initdb = [binaries / "initdb", "-D", data, "-U", "unhang", "--auth=trust", "--no-sync", "--encoding=UTF8"]
    extra = None if user is None else []
    try:
        subprocess.run(
            [*initdb, "--locale=C"], check=True, capture_output=True, timeout=START_SECONDS, cwd=folder,
            user=user, group=group, extra_groups=extra,
        )  # fmt: skip
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [binaries / "postgres", "-D", data, *quick, *where], stdout=log, stderr=log, cwd=folder,
                user=user, group=group, extra_groups=extra,
            )  # fmt: skip
        try:
            _wait_until_ready(folder)
            yield Postgres(folder, server.pid)
        finally:
            server.send_signal(signal.SIGQUIT)  # the immediate shutdown: nothing in it will be wanted again
            server.wait(START_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(folder: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        try:
            psycopg.connect(host=str(folder), user="unhang", dbname="postgres").close()
            return
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise AssertionError(f"PostgreSQL did not start: {(folder / 'log').read_text()}")
