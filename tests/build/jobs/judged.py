"""The verdict of the real judge, which must not depend on the order of what it is given."""

import random
from collections.abc import Sequence
from pathlib import Path

from collector.align.expected import Expected
from collector.files.read_directory import read_directory
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.wire.snapshot import NodeSnapshot


def judged(snapshots: Sequence[NodeSnapshot], expected: Expected | None = None) -> Diagnosis:
    """Diagnose, and once more in another order of snapshots and of ranks."""
    expected = expected or Expected()
    answer = diagnose(snapshots, expected)
    order = random.Random(7)
    mixed = [one.model_copy(update={"ranks": tuple(order.sample(one.ranks, len(one.ranks)))}) for one in snapshots]
    order.shuffle(mixed)
    assert diagnose(mixed, expected) == answer
    return answer


def judged_files(path: Path, *, world_size: int | None = None) -> Diagnosis:
    """Diagnose what lies in a directory, as `unhang diagnose --from` does."""
    snapshots, unreadable = read_directory(path)
    return judged(snapshots, Expected(world_size=world_size, unreadable=unreadable))
