"""A collector killed at any moment of a sweep: what it has answered is kept, and the rest is told as it is."""

import random
import signal
import threading
import time
from typing import Any

import httpx
import pytest

from shared.answer.diagnosis import Diagnosis
from tests.build.agents.fake_agents import JOB
from tests.build.agents.served_agents import served, whole_job
from tests.build.processes.nursery import Nursery
from tests.build.processes.ports import free_port

pytestmark = pytest.mark.slow

LEASE_SECONDS = 1.0
INTERVAL_SECONDS = 0.15
MOST_SECONDS = 1.0
"""Within that time a kill comes: a sweep takes about a third of it."""


class Life:
    """One collector, from its start to its kill, with what its callers were told."""

    def __init__(self, flags: dict[str, Any]) -> None:
        self.url = f"http://{flags['listen']}"
        self.answered: list[str] = []
        self.location: str | None = None

    def ask(self) -> None:
        """Ask for diagnoses, one after the other, until the collector is gone."""
        with httpx.Client(base_url=self.url, timeout=30, trust_env=False, verify=False) as client:
            try:
                while True:
                    self.location = client.post(f"/v1/jobs/{JOB}/diagnoses").headers["location"]
                    answer = client.post(f"/v1/jobs/{JOB}/diagnoses", params={"wait": 20})
                    if answer.status_code == 200:
                        self.answered.append(Diagnosis.model_validate_json(answer.content).id)
            except httpx.TransportError:
                pass


def live_and_die(nurse: Nursery, flags: dict[str, Any], chance: random.Random) -> tuple[Life, str]:
    """Run a collector that is asked all the time, and kill it at some moment; say how its last run is told then."""
    pid = nurse.start(**flags)
    life = Life(flags)
    asking = threading.Thread(target=life.ask)
    asking.start()
    time.sleep(chance.uniform(0.0, MOST_SECONDS))
    assert nurse.end(pid, signal.SIGKILL) == signal.SIGKILL
    asking.join()
    return life, "" if life.location is None else _told_by_the_next(nurse, flags, life)


def _told_by_the_next(nurse: Nursery, flags: dict[str, Any], life: Life) -> str:
    """Return what becomes of the killed one's last run, asked of the next collector until it has an answer."""
    pid = nurse.start(**flags)
    with httpx.Client(base_url=life.url, timeout=30, trust_env=False, verify=False) as client:
        assert client.get("/healthz").json()["status"] == "ok"
        for id in life.answered:
            assert client.get(f"/v1/diagnoses/{id}").status_code == 200
        until = time.monotonic() + 30 * LEASE_SECONDS
        status = 202
        while status == 202 and time.monotonic() < until:
            assert life.location is not None
            answer = client.get(life.location)
            status = answer.status_code
            time.sleep(0.05 if status == 202 else 0.0)
    assert status in (200, 410), answer.text
    if status == 410:
        assert "interrupted" in answer.json()["detail"]
    assert nurse.end(pid, signal.SIGTERM) in (0, signal.SIGTERM)
    return {200: "kept", 410: "interrupted"}[status]


def kill_many_times(nurse: Nursery, place: str, times: int) -> dict[str, int]:
    """Kill a collector so many times, each at another moment, and count how the run was told that was under way."""
    chance = random.Random(20_261_121)
    told = {"": 0, "kept": 0, "interrupted": 0}
    answered = 0
    with served(whole_job()) as agent:
        for _ in range(times):
            flags = {
                "listen": f"127.0.0.1:{free_port()}",
                "store": place,
                "agents": agent,
                "interval_seconds": INTERVAL_SECONDS,
                "lease_seconds": LEASE_SECONDS,
            }
            life, how = live_and_die(nurse, flags, chance)
            told[how] += 1
            answered += len(life.answered)
    print(f"{times} kills, {answered} answers, all there afterwards; the run under way: {told}")
    return told


def test_killed_in_mid_sweep(nursery: Nursery, place: str) -> None:
    """A few of the kills of the long test below."""
    assert sum(kill_many_times(nursery, place, 5).values()) == 5


@pytest.mark.repeated
@pytest.mark.timeout(3600)
def test_killed_two_hundred_times(nursery: Nursery, place: str) -> None:
    """At any moment of 200 sweeps: nothing that was answered is lost, and the store opens every time."""
    told = kill_many_times(nursery, place, 200)
    assert told["interrupted"] > 20
    assert told["kept"] > 5
