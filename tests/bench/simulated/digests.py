"""What an agent of the simulated job tells unasked when it registers, as `agent/look/digests.py` makes it of marks."""

import http.client
import socket
import ssl
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache

from shared.wire.registration import JobDigest, Lease, NodeDigest, Registration
from shared.wire.trace import State
from tests.bench.simulated.job import NAME, PER_NODE, SimulatedJob, host_of
from tests.bench.simulated.records import trace_of
from tests.bench.simulated.servers import Task, url_of

_OF_AN_ADDRESS = 1024

AT_ONCE = 32
"""Agents that register at the same time: a collector answers some of them together."""


def digest_of(task: Task, number: int, now_ns: int) -> NodeDigest:
    """Return the digest of one node of a job: where each rank issued last, and for how long it has stood."""
    job = SimulatedJob(task.nodes, task.moving)
    ranks = tuple(range(number * PER_NODE, (number + 1) * PER_NODE))
    newest = [_newest(job, rank) for rank in ranks]
    groups = tuple(dict.fromkeys(name for name, _, _ in newest))
    still = 0.4 if task.moving else round((now_ns - task.stopped_ns) / 1e9, 1)
    told = JobDigest(
        job=NAME,
        world_size=job.world,
        timeout_seconds=600.0,
        ranks=ranks,
        still=(still,) * PER_NODE,
        idle=(still,) * PER_NODE,
        pending=tuple(pending for _, _, pending in newest),
        group=tuple(groups.index(name) for name, _, _ in newest),
        sequence=tuple(sequence for _, sequence, _ in newest),
        groups=groups,
    )
    return NodeDigest(jobs=(told,))


@dataclass(frozen=True)
class Agents:
    """The agents of a task, as they register at one collector here."""

    port: int
    task: Task
    token: str | None = None
    tls: ssl.SSLContext | None = None
    digests: bool = True
    keep: bool = False
    """Keep connections, as agents do over TLS."""
    _kept: dict[int, socket.socket] = field(default_factory=dict)

    def register(self, number: int) -> Lease:
        """Register one agent with its digest, as `agent/registration.py` does."""
        digest = digest_of(self.task, number, time.time_ns()) if self.digests else None
        registration = Registration(url=url_of(self.task, number), digest=digest)
        body = registration.model_dump_json(exclude=None if self.digests else {"digest"}).encode()
        bearer = "" if self.token is None else f"Authorization: Bearer {self.token}\r\n"
        head = (
            f"PUT /v1/agents/{host_of(number)} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Accept-Encoding: identity\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n"
            f"Connection: {'keep-alive' if self.keep else 'close'}\r\n{bearer}\r\n"
        ).encode()
        return self._put(number, head + body)

    def _put(self, number: int, request: bytes) -> Lease:
        was_kept = number in self._kept
        connection = self._kept.pop(number, None) or self._connection(number)
        answer = http.client.HTTPResponse(connection, method="PUT")
        try:
            connection.sendall(request)
            answer.begin()
            said = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            if was_kept:
                return self._put(number, request)
            raise
        assert answer.status == 200, said
        if answer.will_close:
            connection.close()
        else:
            self._kept[number] = connection
        return Lease.model_validate_json(said)

    def close(self) -> None:
        """Close what is kept."""
        while self._kept:
            self._kept.popitem()[1].close()

    def register_all(self, numbers: Iterable[int]) -> Lease:
        """Register these agents, of which none waits for another; returns one of the leases."""
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return list(threads.map(self.register, numbers))[-1]

    def _connection(self, number: int) -> socket.socket:
        """From an address of its own for each thousand agents: one address may register no more than two thousand."""
        here = (f"127.0.0.{2 + number // _OF_AN_ADDRESS}", 0)
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30.0, source_address=here)
        return connection if self.tls is None else self.tls.wrap_socket(connection, server_hostname="localhost")


@cache
def _newest(job: SimulatedJob, rank: int) -> tuple[str, int, bool]:
    """Where a rank has issued last: the group, the number there, and whether that is pending."""
    trace = trace_of(job, rank, stopped_ns=0, look=0)
    collectives = [at for at in range(len(trace)) if not trace.is_p2p[at]]
    record = trace.record(max(collectives, key=lambda at: trace.created_ns[at]))
    return record.group.name, record.collective_seq, record.state is not State.COMPLETED
