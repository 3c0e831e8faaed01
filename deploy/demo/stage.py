"""Processes that a demonstration starts: each in a session of its own, its output in a file, all ended for sure."""

import json
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

END_SECONDS = 5.0
_STATE = "processes.json"


class Stage:
    """What runs on behalf of one demonstration. `folder` holds a log file for each process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[psutil.Process] = []
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str], more: Mapping[str, str] | None = None) -> Path:
        """Start `command`, with `more` in its environment, and return the file that takes its output."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(more or {})},
            )
        self._children[name] = child
        self._started.append(psutil.Process(child.pid))
        return log

    def ended(self) -> dict[str, int]:
        """Return the names and exit codes of what has ended by itself."""
        codes = {name: child.poll() for name, child in self._children.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def leave(self) -> None:
        """Write down what runs, for `stop` to be called by a later process."""
        known = [(process.pid, process.create_time()) for process in self._started if process.is_running()]
        (self.folder / _STATE).write_text(json.dumps(known), encoding="utf-8")

    def stop(self) -> None:
        """End everything that was started here, and what that has started. torchrun gives each rank its own session."""
        family = {process for parent in self._started for process in _with_descendants(parent)}
        for process in family:
            _signal(process, kill=False)
        for process in psutil.wait_procs(family, timeout=END_SECONDS)[1]:
            _signal(process, kill=True)
        psutil.wait_procs(family, timeout=END_SECONDS)

    @classmethod
    def left(cls, folder: Path) -> "Stage":
        """Return the stage that `leave` wrote down in `folder`."""
        stage = cls(folder)
        for pid, created in json.loads((folder / _STATE).read_text(encoding="utf-8")):
            if psutil.pid_exists(pid) and psutil.Process(pid).create_time() == created:
                stage._started.append(psutil.Process(pid))
        return stage


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody has now."""
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [holder.getsockname()[1] for holder in holders]
    for holder in holders:
        holder.close()
    return ports


def _with_descendants(parent: psutil.Process) -> list[psutil.Process]:
    try:
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _signal(process: psutil.Process, *, kill: bool) -> None:
    """Ask a process to end, or end it; a stopped one does not hear the request."""
    try:
        if kill or process.status() == psutil.STATUS_STOPPED:
            process.kill()
        else:
            process.terminate()
    except psutil.NoSuchProcess:
        pass
