"""Recorded hangs with known roots: the verdict agrees with the truth, whatever the order the dumps are read in."""

import itertools
import json

import pytest

from collector.diagnose import Expected, diagnose
from shared.diagnosis import Verdict
from tests.collector.diagnose.dumps import CASES, snapshots_of

TRUTH = json.loads((CASES / "truth.json").read_text())


@pytest.mark.parametrize("case", sorted(TRUTH))
def test_verdict_agrees_with_the_truth_in_every_load_order(case: str) -> None:
    truth = TRUTH[case]
    snapshots = snapshots_of(sorted((CASES / case).iterdir()))
    answers = {diagnose(order, Expected()).model_dump_json() for order in itertools.permutations(snapshots)}
    assert len(answers) == 1
    diagnosis = diagnose(snapshots, Expected())
    assert diagnosis.verdict is Verdict.HUNG
    first = diagnosis.findings[0]
    assert sorted(first.culprit_ranks) == truth["culprits"]
    assert first.kind in truth["kinds"]
    if "victims" in truth:
        assert first.victims == truth["victims"]
    if "group" in truth:
        assert first.group is not None and first.group.name == truth["group"]
        assert first.sequence == truth["sequence"]
    assert bool(first.cycle) == truth.get("cycle", False)
    named = {rank for evidence in first.evidence for rank in evidence.ranks.split(",")}
    assert named, "a finding without evidence"
