"""The general voice: which lines tell that somebody waited long, and which only look so."""

import pytest

from shared.formats.logs.general_voice import seconds_waited


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("The client socket has timed out after 60s while trying to connect to 10.0.0.1:1234", 60.0),
        ("[2026-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)", 300.0),
        ("worker 3 is not responding for 2.5 minutes", 150.0),
        ("No available shared memory broadcast block found in 60 seconds.", 60.0),
        ("90000 ms without an answer: the loader is stuck", 90.0),
        ("waited 2 hours for the lock", 7200.0),
        ("waiting for 5 s", None),
        ("connection timed out, retrying in 30 s", None),
        ("timeout set to 600 s", None),
        ("Epoch 5, Time 4981.4s, Loss 0.5731", None),
        ("Running: 18 reqs, Waiting: 43 reqs, GPU KV cache usage: 95.9%", None),
        ("Namespace(timeout=600, heartbeat_timeout=60, wait=30)", None),
        ("HTTP/1.1 200 OK in 30 s, response sent", None),
    ],
)
def test_lines(line: str, seconds: float | None) -> None:
    assert seconds_waited(line) == seconds
