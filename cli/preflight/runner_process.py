"""The process of the job's own Python that runs this node's trials, started anew where it no longer answers."""

import asyncio
import json
import os
import shutil
import signal
import sys
from contextlib import suppress
from typing import Any

from cli.preflight.user_python import program
from shared.errors import InvalidSettings, Unreachable, quoted

Figures = dict[str, Any]

IMPORT_SECONDS = 180.0
"""PyTorch from a slow shared file system, on all nodes at the same time."""

GRACE_SECONDS = 5.0
_MOST_LINE = 4 * 1024 * 1024
_MOST_SAID = 2000
_BURIAL_SECONDS = 2.0


def default_python() -> str:
    """Return the interpreter that a job started here would use."""
    return shutil.which("python") or shutil.which("python3") or sys.executable


class RunnerProcess:
    """Started by the first trial that needs it."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._process: asyncio.subprocess.Process | None = None
        self._reading: list[asyncio.Task[None]] = []
        self._ports: dict[str, asyncio.Future[int]] = {}
        self._done: dict[str, asyncio.Future[Figures]] = {}
        self._said = bytearray()
        self._restart: asyncio.Task[None] | None = None

    async def start(self) -> Figures:
        """Start it and return what it says of its PyTorch. Raises InvalidSettings."""
        await self.close()
        try:
            self._process = await asyncio.create_subprocess_exec(
                self._python, "-u", "-c", program(),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                start_new_session=True, limit=_MOST_LINE,
            )  # fmt: skip
        except OSError as error:
            raise InvalidSettings(
                f"{self._python} cannot be run: {error.strerror}", advice="name the job's Python with --python"
            ) from error
        assert self._process.stdout is not None and self._process.stderr is not None
        self._reading = [asyncio.create_task(self._keep_end(self._process.stderr))]
        try:
            async with asyncio.timeout(IMPORT_SECONDS):
                line = await self._process.stdout.readline()
        except (TimeoutError, ValueError) as error:
            await self.close()
            raise InvalidSettings(f"PyTorch is not imported within {IMPORT_SECONDS:.0f} s") from error
        try:
            first = json.loads(line)
        except ValueError:
            first = {}
        if "ready" not in first:
            why = first.get("failed") or quoted(bytes(self._said[-200:]))
            await self.close()
            raise InvalidSettings(
                f"{self._python} cannot import PyTorch: {why}", advice="name the job's Python with --python"
            )
        self._reading.append(asyncio.create_task(self._read(self._process.stdout)))
        return dict(first["ready"])

    def begin(self, order: Figures) -> tuple[asyncio.Future[int], asyncio.Future[Figures]]:
        """Start a trial; return its store's port, where this node leads it, and its outcome. Raises Unreachable."""
        name, process = str(order["start"]), self._process
        if process is None or process.returncode is not None or process.stdin is None:
            raise Unreachable("PyTorch does not run on this node")
        loop = asyncio.get_running_loop()
        port, done = loop.create_future(), loop.create_future()
        self._ports[name], self._done[name] = port, done
        with suppress(OSError, RuntimeError):
            process.stdin.write(json.dumps(order).encode() + b"\n")
        return port, done

    async def outcome(self, order: Figures, done: asyncio.Future[Figures]) -> Figures:
        """Wait until a trial is over. Where the process no longer answers, it is ended and started again."""
        try:
            async with asyncio.timeout(float(order["seconds"]) + GRACE_SECONDS):
                return await done
        except TimeoutError:
            self._restart = asyncio.create_task(self._start_again())
            return {"done": [], "timed_out": True, "said": "its processes were stopped, or blocked in the kernel"}

    async def ready(self) -> None:
        """Wait until it is there again, where it was ended because it did not answer."""
        if self._restart is not None:
            await self._restart

    async def _start_again(self) -> None:
        with suppress(InvalidSettings):
            await self.start()

    def end(self, name: str) -> None:
        """Have a trial ended now."""
        if self._process is not None and self._process.stdin is not None and name in self._done:
            with suppress(OSError, RuntimeError):
                self._process.stdin.write(json.dumps({"end": name}).encode() + b"\n")

    async def close(self) -> None:
        """End it, and with it all trials: the kernel ends each rank when its parent is gone."""
        process, self._process = self._process, None
        for task in self._reading:
            task.cancel()
        self._reading = []
        self._forget("PyTorch was ended on this node")
        if process is not None:
            await end_group(process)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        with suppress(ValueError, OSError):
            while line := await stream.readline():
                answer = json.loads(line)
                name = str(answer.get("trial"))
                if "port" in answer and name in self._ports and not self._ports[name].done():
                    self._ports[name].set_result(int(answer["port"]))
                elif "done" in answer and name in self._done:
                    if not self._done[name].done():
                        self._done[name].set_result(answer)
                    self._drop(name)
        self._forget("PyTorch has ended on this node")

    def _drop(self, name: str) -> None:
        self._done.pop(name, None)
        port = self._ports.pop(name, None)
        if port is not None and not port.done():
            port.cancel()

    def _forget(self, why: str) -> None:
        for name, done in list(self._done.items()):
            if not done.done():
                said = f"{why}: {bytes(self._said[-500:]).decode('utf-8', 'replace')}"
                done.set_result({"done": [], "timed_out": False, "said": said})
            self._drop(name)

    async def _keep_end(self, stream: asyncio.StreamReader) -> None:
        while part := await stream.read(4096):
            self._said += part
            del self._said[:-_MOST_SAID]


async def end_group(process: asyncio.subprocess.Process) -> None:
    """Kill a process with its group, and reap it unless it is blocked in the kernel."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_BURIAL_SECONDS):
            await process.wait()
