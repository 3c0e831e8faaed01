"""Recorded hangs with known roots: the verdict agrees with the truth, whatever the order the dumps are read in.

`cases` are dumps in NCCL's conventions; `gloo` are dumps as torch 2.13's worker server gave them for programs of
tests/programs, with an empty `pg_config`: nobody says there who the members of a group are. Gloo leaves out sends and
receives, so that some of these name nobody.
"""

import itertools
import json
from pathlib import Path

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Verdict
from shared.rank_sets import unfold
from tests.build.jobs.dumps import CASES, GLOO, snapshots_of

RECORDED = [case for base in (CASES, GLOO) for case in sorted(base.iterdir()) if case.is_dir()]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_verdict_agrees_with_the_truth_in_every_load_order(case: Path) -> None:
    truth = json.loads((case.parent / "truth.json").read_text())[case.name]
    snapshots = snapshots_of(sorted(case.iterdir()))
    answers = {diagnose(order, Expected()).model_dump_json() for order in itertools.permutations(snapshots)}
    assert len(answers) == 1
    diagnosis = diagnose(snapshots, Expected())
    assert diagnosis.verdict is Verdict.HUNG
    first = diagnosis.findings[0]
    assert sorted(first.culprit_ranks) == truth["culprits"]
    assert first.kind in truth["kinds"]
    assert first.victims == truth.get("victims", first.victims)
    if "group" in truth:
        assert first.group is not None
        assert (first.group.name, first.sequence) == (truth["group"], truth.get("sequence"))
    assert len(first.cycle) > 0 or not truth.get("cycle", False)
    assert set(truth["culprits"]) <= {rank for evidence in first.evidence for rank in unfold(evidence.ranks)}
