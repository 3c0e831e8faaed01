"""Python programs in forks of a process that has imported PyTorch, for tests that need no launcher."""

import os
import signal
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.system.live.fork_server import Forked, fork_server


@contextmanager
def forked(program: str, *arguments: str, env: Mapping[str, str], folder: Path) -> Iterator[Forked]:
    """Run a program that says "ready" until the block ends, and what it has started; its text goes to `folder`."""
    script = folder / f"{uuid.uuid4().hex}.py"
    script.write_text(program, encoding="ascii")
    ours, theirs = os.pipe()
    with open(ours, encoding="ascii") as said:
        try:
            words = (sys.executable, str(script), *arguments)
            process = fork_server().start(words, environment=env, directory=folder, output=theirs, ranks=0)
        finally:
            os.close(theirs)
        try:
            line = said.readline()
            assert line == "ready\n", line + said.read()
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
