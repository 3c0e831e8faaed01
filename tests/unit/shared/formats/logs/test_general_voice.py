"""The general voice: which lines tell that somebody waited long, and which only look so."""

import pytest

from shared.formats.logs.general_voice import seconds_waited, waits_said_again


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("The client socket has timed out after 60s while trying to connect to 10.0.0.1:1234", 60.0),
        ("[2026-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)", 300.0),
        ("worker 3 is not responding for 2.5 minutes", 150.0),
        ("No available shared memory broadcast block found in 60 seconds.", 60.0),
        ("90000 ms without an answer: the loader is stuck", 90.0),
        ("waited 2 hours for the lock", 7200.0),
        ("No heartbeat for components: Sampler_w2 (337 seconds)", 337.0),
        ("removing worker-7: got no heartbeat in 60 seconds", 60.0),
        ("sends a heartbeat every 30 seconds", None),
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


def _polls(*times: str, after: int = 0) -> list[str]:
    return [f"DEBUG 05-16 {time} [client.py:42] Waiting for 3 peers to start" for time in times] + ["step 7"] * after


@pytest.mark.parametrize(
    ("lines", "waited"),
    [
        (_polls("13:12:16", "13:12:26", "13:13:06"), [(2, 50.0)]),
        (_polls("23:59:50", "00:00:20"), [(1, 30.0)]),  # over midnight
        (_polls("13:12:16", "13:12:46", after=12), [(1, 30.0)]),
        (_polls("13:12:16", "13:12:46", after=40), []),  # over, by what the log says since
        (_polls("13:12:16", "13:12:18"), []),
        (_polls("13:12:16"), []),
        (["10:00:00 session 1", "Waiting for the model", "10:00:31 session 2", "Waiting for the model"], [(3, 31.0)]),
        (["waiting for rendezvous ...", "waiting for rendezvous ..."], []),  # nobody knows for how long
        (["10:00:00 waiting for the lock", "10:00:40 waiting for the queue"], []),
    ],
)
def test_a_wait_said_again_is_as_long_as_between_the_lines(lines: list[str], waited: list[tuple[int, float]]) -> None:
    assert list(waits_said_again(lines)) == waited
