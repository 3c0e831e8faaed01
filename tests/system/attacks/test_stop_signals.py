"""A service that is told to end while it starts ends, at whatever moment that is."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from tests.build.processes.commands import command, environment
from tests.build.processes.ports import free_port
from tests.build.processes.warm import Forked, started

_PROGRAM = """
import gc, os, signal, sys, time, weakref
from shared.server.lifecycle.stop_signals import StopSignals

class Thing:
    pass

def dropped(number=signal.SIGTERM):
    thing = Thing()
    watch = weakref.ref(thing, lambda _: os.kill(os.getpid(), number))
    del thing

with StopSignals() as stop:
"""


def program(lines: str) -> Popen[str]:
    """Run these lines while signals are noted."""
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    return Popen([sys.executable, "-c", _PROGRAM + body], stdout=PIPE, stderr=PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_a_signal_in_a_callback_is_not_lost(number: signal.Signals) -> None:
    """Python drops an exception there; the next step finds the note."""
    out, err = (
        process := program(f"dropped({number.value})\nprint('on')\nstop.check()\nprint('not here')")
    ).communicate()
    assert (out, process.returncode) == ("on\n", -number)
    assert "Exception ignored" not in err


def test_a_step_that_takes_long_is_broken_off() -> None:
    """Nobody waits for a database that does not answer."""
    began = time.monotonic()
    process = program("dropped()\ntime.sleep(60)")
    process.communicate(timeout=50)
    assert process.returncode == -signal.SIGTERM
    assert time.monotonic() - began < 40


def test_the_second_signal_ends_it_at_once() -> None:
    """Whoever asks twice does not wait for the step."""
    process = program("dropped()\nprint('noted')\ndropped()\nprint('not here')")
    out, _ = process.communicate(timeout=50)
    assert (out, process.returncode) == ("noted\n", -signal.SIGTERM)


def test_the_server_hears_of_what_came_before() -> None:
    """From then on it is the server that listens."""
    out, _ = program("dropped()\nprint(stop.hand_over())\ntime.sleep(3)\nprint('still here')").communicate(timeout=50)
    assert out == "True\nstill here\n"


@contextmanager
def starting(service: str, directory: Path, *, forked: bool) -> Iterator[Popen[bytes] | Forked]:
    """A service of the command line that has just begun, and writes its errors to a file there."""
    more = ("--store", str(directory / "s.sqlite3")) if service == "collector" else ()
    words = (service, "--listen", f"127.0.0.1:{free_port()}", *more)
    with open(directory / "errors", "wb") as errors:
        if forked:
            with started(words, environment=environment(), directory=directory, output=errors.fileno()) as forked_one:
                yield forked_one
            return
        with Popen(command(*words), env=environment(), stderr=errors) as process:
            yield process
            process.kill()


def listens(process: Popen[bytes] | Forked) -> bool:
    """Does it hold a socket?"""
    try:
        links = [str(each.readlink()) for each in Path(f"/proc/{process.pid}/fd").iterdir()]
    except OSError:
        return False
    return any(link.startswith("socket:") for link in links)


@pytest.mark.parametrize("service", ["agent", "collector"])
@pytest.mark.parametrize(("delay_seconds", "forked"), [(0.0, False), (0.004, True), (0.02, True), (0.1, True)])
def test_a_service_that_has_just_come_up_ends(service: str, delay_seconds: float, forked: bool, tmp_path: Path) -> None:
    """Around the moment in which it begins to serve. 300 moments for each service were tried by hand."""
    with starting(service, tmp_path, forked=forked) as process:
        until = time.monotonic() + 60
        while not listens(process):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.001)
        time.sleep(delay_seconds)
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
    assert status in (0, 128 + signal.SIGTERM)
    assert "Traceback" not in (tmp_path / "errors").read_text()
