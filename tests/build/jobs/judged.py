"""The verdict of the real judge, which depends on no order of what it is given and claims no source that it lacks."""

import random
from collections.abc import Sequence
from pathlib import Path

from collector.align.expected import Expected
from collector.files.read_directory import read_directory
from collector.judge.certainty import TABLE
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis, Finding
from shared.missing import Reason
from shared.wire.snapshot import NodeSnapshot


def judged(snapshots: Sequence[NodeSnapshot], expected: Expected | None = None) -> Diagnosis:
    """Diagnose, and once more in another order of snapshots and of ranks."""
    expected = expected or Expected()
    answer = diagnose(snapshots, expected)
    order = random.Random(7)
    mixed = [one.model_copy(update={"ranks": tuple(order.sample(one.ranks, len(one.ranks)))}) for one in snapshots]
    order.shuffle(mixed)
    assert diagnose(mixed, expected) == answer
    rows = {row.reason: row for row in TABLE.values()}
    if any(gap.missing.reason is Reason.FAILED for gap in answer.coverage.missing):
        return answer  # with a part of the evidence
    for finding in answer.findings:
        assert sources_of(finding) >= rows[finding.certainty_reason].sources, finding.certainty_reason
    return answer


def sources_of(finding: Finding) -> int:
    """How many independent sources its evidence is from. Each log line is one; that nothing moved is none."""
    record = {"sequence": "record", "signature": "record", "wait": "record", "lag": "record"}
    kinds = {record.get(each.kind, each.kind) for each in finding.evidence} - {"log", "motion"}
    return len(kinds) + sum(each.kind == "log" for each in finding.evidence)


def judged_files(path: Path, *, world_size: int | None = None) -> Diagnosis:
    """Diagnose what lies in a directory, as `unhang diagnose --from` does."""
    snapshots, unreadable = read_directory(path)
    return judged(snapshots, Expected(world_size=world_size, unreadable=unreadable))
