"""Operations that differ: by fit where sizes rightly differ, by siblings where a group is split, past ones at rest."""

import pytest

from collector.align.expected import Expected
from collector.judge.records import unequal_sizes
from shared.answer.diagnosis import SignatureEvidence
from shared.answer.words import Kind
from tests.build.jobs.cases import RECORD_CASES
from tests.build.jobs.judged import judged
from tests.build.jobs.records import ISSUED, STARTED, Row, judged_records, recorded

WORLD = {"0": range(4)}


def test_sizes_of_a_group_that_may_have_more_members_need_not_fit() -> None:
    """Ranks of which there is no record may be in it: what was sent to them is missing in the sum."""
    exchanges = {rank: Row("expert", 1, ISSUED, "all_to_all_single", [3], [size]) for rank, size in [(0, 5), (1, 3)]}
    rows = {rank: [Row("0", 1), exchange] for rank, exchange in exchanges.items()}
    whole = judged_records(rows, {"0": range(2), "expert": ()})
    assert whole.findings[0].kind is Kind.COLLECTIVE_MISMATCH
    part = judged(recorded(rows, {"0": range(3), "expert": ()}), Expected(world_size=3))
    assert not any(finding.kind is Kind.COLLECTIVE_MISMATCH for finding in part.findings)


def test_without_the_rule_the_case_of_torchs_own_analyser_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """`match_one_event` of PyTorch's test_fr_analysis.py: sizes in and out differ, and all ranks agree."""
    monkeypatch.delitem(unequal_sizes._FITS, "all_reduce")
    rows = {rank: [Row("0", 1, ISSUED, inputs=[16], outputs=[20])] for rank in range(2)}
    assert judged_records(rows, {"0": range(2)}).findings[0].kind is Kind.STUCK_TOGETHER


def batch(*parts: Row) -> list[Row]:
    return [*parts, Row("0", 2, STARTED, "all_gather_coalesced", [], [])]


SENDS, REDUCES = Row("0", 2, STARTED, "_broadcast_oop"), Row("0", 2, STARTED, "_reduce_oop")
BEFORE = [Row("0", 1)]


@pytest.mark.parametrize(
    ("odd", "others", "shown"),
    [
        ([*BEFORE, *batch(SENDS, SENDS)], [*BEFORE, *batch(SENDS, SENDS)], ()),
        (
            [*BEFORE, *batch(SENDS, REDUCES)],
            [*BEFORE, *batch(SENDS, SENDS)],
            ("_broadcast_oop in all_gather_coalesced [16]", "_reduce_oop in all_gather_coalesced [16]"),
        ),
        (
            [*BEFORE, *batch(SENDS)],
            [*BEFORE, *batch(SENDS, SENDS)],
            ("all_gather_coalesced of 2 parts [16] [16]", "all_gather_coalesced of 1 part [16]"),
        ),
        (batch(SENDS), [*BEFORE, *batch(SENDS, SENDS)], ()),
        ([*BEFORE, SENDS], [*BEFORE, *batch(SENDS, SENDS)], ()),
    ],
    ids=["equal", "operation", "number", "cut by the ring", "not put together yet"],
)
def test_both_sides_of_a_batch_show_what_differs(odd: list[Row], others: list[Row], shown: tuple[str, ...]) -> None:
    answer = judged_records({0: others, 1: odd, 2: others}, {"0": range(3)})
    (finding,) = answer.findings
    sides = [side for each in finding.evidence if isinstance(each, SignatureEvidence) for side in each.sides]
    assert tuple(f"{side.op} {side.sizes.partition(' -> ')[0]}" for side in sides) == shown
    assert (finding.kind is Kind.COLLECTIVE_MISMATCH, finding.culprit_ranks) == (bool(shown), (1,) if shown else ())
    assert finding.op is None or " in " not in finding.op


@pytest.mark.parametrize("name", RECORD_CASES)
def test_what_records_show(name: str) -> None:
    RECORD_CASES[name].check()
