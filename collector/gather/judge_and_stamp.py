"""The verdict with what only the caller knows: an id, and when it was made."""

import secrets
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from collector.align.expected import Expected
from collector.align.logs.file_ends import last_words
from collector.gather.pod_names import named
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.wire.snapshot import NodeSnapshot

_NEXT_FRACTION_NS = 500
"""More than one of the 4,096 parts into which an id divides a millisecond."""


def judge(snapshots: Sequence[NodeSnapshot], expected: Expected) -> Diagnosis:
    """Diagnose, name what is found as people do, add what was logged last, and sign with an id and the time."""
    now = time.time_ns()
    diagnosis = named(diagnose(snapshots, expected), expected.places)
    ends = last_words(snapshots, expected, diagnosis.findings[0]) if diagnosis.findings else ()
    return diagnosis.model_copy(update={"id": new_id(now), "made_at": rfc3339(now), "last_lines": ends})


def kept_as(diagnosis: Diagnosis, id: str) -> Diagnosis:
    """Return the diagnosis under the id by which a store keeps it; its act says so."""
    kept = {"kept": f"what this rests on, as /v1/diagnoses/{id}/bundle"}
    action = None if diagnosis.action is None else diagnosis.action.model_copy(update=kept)
    return diagnosis.model_copy(update={"id": id, "action": action})


def new_id(at_ns: int) -> str:
    """Return an id whose text sorts by time: a UUID of version 7 (RFC 9562, with sub-millisecond method 3)."""
    milliseconds, rest_ns = divmod(at_ns, 1_000_000)
    fraction = rest_ns * 4096 // 1_000_000
    number = (milliseconds & (1 << 48) - 1) << 80 | 7 << 76 | fraction << 64 | 2 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=number))


def id_after(newest: str | None, at_ns: int) -> str:
    """Return an id for a time that sorts after `newest`, also where the clock has not moved on since."""
    if newest is None:
        return new_id(at_ns)
    number = uuid.UUID(newest).int
    newest_ns = (number >> 80) * 1_000_000 + (number >> 64 & 0xFFF) * 1_000_000 // 4096
    return new_id(max(at_ns, newest_ns + _NEXT_FRACTION_NS))


def rfc3339(at_ns: int) -> str:
    """Write a time as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
