"""Asking the collector over its REST API, from a host of its network, as a bot there would."""

import ctypes
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from shared.answer.diagnosis import Diagnosis
from tests.system.e2e.hosts import Host

T = TypeVar("T")

ANSWER_SECONDS = 90.0
"""For a verdict that is due after a fraction of that: a busy machine may judge slowly, but must not wait for ever."""

_CLONE_NEWNET = 0x4000_0000


@dataclass(frozen=True)
class Told:
    """One diagnosis, as the collector's store keeps it, and how long we have waited for it."""

    diagnosis: Diagnosis
    waited_seconds: float

    @property
    def culprits(self) -> frozenset[int]:
        """All ranks that any finding blames."""
        return frozenset(rank for finding in self.diagnosis.findings for rank in finding.culprit_ranks)

    @property
    def unseen_hosts(self) -> frozenset[str]:
        """The nodes of which the coverage says that an agent did not answer, or that ranks are not there."""
        gaps = (gap for gap in self.diagnosis.coverage.missing if gap.missing.source.startswith(("http://", "rank")))
        return frozenset(gap.host for gap in gaps if gap.host is not None)

    @property
    def text(self) -> str:
        """All of it, for people who read why a test has failed."""
        return self.diagnosis.model_dump_json(indent=1, exclude={"stack_classes"})


class Asker:
    """One thread that lives on a host's network, and an HTTP client in it."""

    def __init__(self, host: Host, url: str, token: str) -> None:
        self._thread = ThreadPoolExecutor(1, "asker", initializer=_enter_network, initargs=(host.pid,))
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(
            base_url=url, headers=headers, trust_env=False, verify=False, timeout=ANSWER_SECONDS
        )

    def close(self) -> None:
        """Leave."""
        self._client.close()
        self._thread.shutdown()

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        """Ask. Raises httpx.TransportError where nobody answers."""
        return self._there(lambda: self._client.get(path, params=parameters))

    def begin(self, job: str, **options: Any) -> str:
        """Have a diagnosis made, and return its id without waiting for it."""
        answer = self._there(lambda: self._client.post(f"/v1/jobs/{job}/diagnoses", json=options or None))
        assert answer.status_code in (200, 202), answer.text
        return answer.headers["location"].rpartition("/")[2]

    def fetch(self, id: str) -> Diagnosis:
        """Wait for a diagnosis and return it. Fails where there is none in the end."""
        until = time.monotonic() + ANSWER_SECONDS
        while (answer := self.get(f"/v1/diagnoses/{id}")).status_code == 202 and time.monotonic() < until:
            time.sleep(0.1)
        assert answer.status_code == 200, answer.text
        return Diagnosis.model_validate_json(answer.content)

    def diagnose(self, *jobs: str) -> list[Told]:
        """Have several jobs diagnosed at the same time, and check that each answer is kept."""
        began = time.monotonic()
        ids = [self.begin(job) for job in jobs]
        told = [Told(self.fetch(id), time.monotonic() - began) for id in ids]
        for job, id in zip(jobs, ids, strict=True):
            assert id in self.kept(job)
        return told

    def kept(self, job: str) -> dict[str, str]:
        """Return the verdicts that the store has of a job, by id, newest first."""
        rows = self.get("/v1/diagnoses", job=job, limit=500).json()["diagnoses"]
        return {row["id"]: row["verdict"] for row in rows}

    def _there(self, what: Callable[[], T]) -> T:
        return self._thread.submit(what).result()


def _enter_network(pid: int) -> None:
    """Take this thread, and no other, to the network of a process: Python has had os.setns since 3.12 only."""
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if library.setns(namespace, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(namespace)
