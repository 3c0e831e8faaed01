"""Operations that differ: by fit where sizes rightly differ, by siblings where a group is split, past ones at rest."""

import pytest

from collector.align.expected import Expected
from collector.judge.records import unequal_sizes
from shared.answer.diagnosis import SignatureEvidence
from shared.answer.words import Certainty, Kind
from tests.build.jobs.judged import judged
from tests.build.jobs.records import DONE, ISSUED, STARTED, Row, judged_records, recorded

WORLD = {"0": range(4)}


def lists(sent: list[int], expected: list[int]) -> list[Row]:
    return [Row("0", 1, ISSUED, "all_to_all", sent, expected)]


def test_the_rank_that_fits_nobody_in_an_all_to_all_is_named() -> None:
    rows = {rank: lists([4, 4, 4, 4], [4, 4, 4, 4]) for rank in range(4)}
    rows[2] = lists([5, 5, 4, 5], [4, 4, 4, 4])
    finding = judged_records(rows, WORLD).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, (2,))
    assert "rank 2 sends 5 elements to rank 0, which expects 4" in finding.remarks


def test_one_pair_that_does_not_fit_convicts_neither_side() -> None:
    rows = {rank: lists([4, 4, 4, 4], [4, 4, 4, 4]) for rank in range(4)}
    rows[2] = lists([5, 4, 4, 4], [4, 4, 4, 4])
    finding = judged_records(rows, WORLD).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, ())


def test_uneven_splits_that_fit_are_no_mismatch() -> None:
    rows = {rank: lists([rank + 1] * 4, [1, 2, 3, 4]) for rank in range(4)}
    assert judged_records(rows, WORLD).findings[0].kind is Kind.STUCK_TOGETHER


def test_sums_that_do_not_fit_name_the_one_who_differs_from_all_others() -> None:
    rows = {rank: [Row("0", 1, ISSUED, "all_to_all_single", [8], [8])] for rank in range(4)}
    rows[1] = [Row("0", 1, ISSUED, "all_to_all_single", [9], [8])]
    finding = judged_records(rows, WORLD).findings[0]
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (
        Kind.COLLECTIVE_MISMATCH,
        (1,),
        Certainty.SUPPORTED,
    )


def test_sizes_of_a_group_that_may_have_more_members_need_not_fit() -> None:
    """Ranks of which there is no record may be in it: what was sent to them is missing in the sum."""
    exchanges = {rank: Row("expert", 1, ISSUED, "all_to_all_single", [3], [size]) for rank, size in [(0, 5), (1, 3)]}
    rows = {rank: [Row("0", 1), exchange] for rank, exchange in exchanges.items()}
    whole = judged_records(rows, {"0": range(2), "expert": ()})
    assert whole.findings[0].kind is Kind.COLLECTIVE_MISMATCH
    part = judged(recorded(rows, {"0": range(3), "expert": ()}), Expected(world_size=3))
    assert not any(finding.kind is Kind.COLLECTIVE_MISMATCH for finding in part.findings)


def test_two_roots_of_a_gather_are_told_and_neither_is_convicted() -> None:
    rows = {rank: [Row("0", 1, ISSUED, "gather", [4], [4, 4, 4, 4] if rank < 2 else [])] for rank in range(4)}
    finding = judged_records(rows, WORLD).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, ())
    assert finding.remarks == ("ranks 0-1 each act as the root",)


@pytest.mark.parametrize(("roots", "culprits"), [((0, 0), (2,)), ((0, 1), ()), ((2, 0), ()), ((0,), ())])
def test_of_two_roots_of_a_gather_the_one_that_never_was_is_named(
    roots: tuple[int, ...], culprits: tuple[int, ...]
) -> None:
    """The senders are done with theirs already, and wait in the next operation."""
    before = [(number + 1, DONE, (root,)) for number, root in enumerate(roots)]
    last = len(roots) + 1
    rows = {
        rank: [
            Row("0", sequence, state, "gather", [4], [4, 4, 4, 4] if rank in acting else [])
            for sequence, state, acting in (*before, (last, ISSUED if rank in (0, 2) else DONE, (0, 2)))
        ]
        for rank in range(4)
    }
    for sender in (1, 3):
        rows[sender].append(Row("0", last + 1, ISSUED, "barrier"))
    finding = judged_records(rows, WORLD).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, culprits)
    assert "ranks 0,2 each act as the root" in finding.remarks


def test_a_disagreement_that_all_have_left_behind_is_not_the_root() -> None:
    """Whatever differed at #1, all agreed on #2 and completed it: rank 3, who is absent at #3, holds the job."""
    rows = {rank: [Row("0", 1, inputs=[rank]), Row("0", 2), Row("0", 3, ISSUED)] for rank in range(3)}
    rows[3] = [Row("0", 1, inputs=[9]), Row("0", 2)]
    assert [(f.kind, f.culprit_ranks) for f in judged_records(rows, WORLD).findings] == [(Kind.RANK_NOT_JOINED, (3,))]


def test_a_pair_that_disagrees_is_judged_by_its_sibling() -> None:
    groups = {"tp0": (0, 1), "tp1": (2, 3)}
    program = [Row("tp0", 1), Row("tp0", 2), Row("tp0", 3, ISSUED)]
    sibling = [Row("tp1", 1), Row("tp1", 2), Row("tp1", 3)]
    rows = {0: program, 1: [*program[:2], Row("tp0", 3, ISSUED, "all_gather")], 2: sibling, 3: sibling}
    finding = judged_records(rows, groups).findings[0]
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (
        Kind.COLLECTIVE_MISMATCH,
        (1,),
        Certainty.SUPPORTED,
    )


def test_a_sibling_that_runs_another_program_is_no_witness() -> None:
    groups = {"tp0": (0, 1), "tp1": (2, 3)}
    program = [Row("tp0", 1), Row("tp0", 2), Row("tp0", 3, ISSUED)]
    other_stage = [Row("tp1", 1, inputs=[99]), Row("tp1", 2, inputs=[99]), Row("tp1", 3)]
    rows = {0: program, 1: [*program[:2], Row("tp0", 3, ISSUED, "all_gather")], 2: other_stage, 3: other_stage}
    assert judged_records(rows, groups).findings[0].culprit_ranks == ()


def test_a_skipped_call_is_traced_to_its_line_though_the_operations_look_alike() -> None:
    calls = [(sequence, 10 + sequence % 3) for sequence in range(1, 9)]
    rows = {rank: [Row("0", s, DONE if s < 8 else ISSUED, line=line) for s, line in calls] for rank in range(4)}
    skipped = [line for sequence, line in calls if sequence != 4]
    rows[2] = [Row("0", sequence, DONE, line=line) for sequence, line in enumerate(skipped, 1)]
    finding = judged_records(rows, WORLD).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.RANK_NOT_JOINED, (2,))
    assert any("skipped one all_reduce (/srv/train.py:11) at #4" in remark for remark in finding.remarks)


def test_an_extra_call_is_traced_too() -> None:
    """The others have done all they had to do; the one who waits made a call of its own."""
    calls = [(sequence, 10 + sequence % 3) for sequence in range(1, 8)]
    rows = {rank: [Row("0", s, DONE, line=line) for s, line in calls] for rank in range(4)}
    lines = [line for _, line in calls]
    longer = [*lines[:3], 77, *lines[3:]]
    rows[1] = [Row("0", s, DONE if s < 8 else ISSUED, line=line) for s, line in enumerate(longer, 1)]
    finding = judged_records(rows, WORLD).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, (1,))
    assert any("issued in excess one all_reduce (/srv/train.py:77) at #4" in remark for remark in finding.remarks)


def test_where_most_have_not_come_and_nothing_tells_why_nobody_is_named() -> None:
    rows = {rank: [Row("0", 1)] for rank in range(4)}
    rows[1] = [Row("0", 1), Row("0", 2, ISSUED)]
    finding = judged_records(rows, WORLD).findings[0]
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (Kind.RANK_NOT_JOINED, (), Certainty.SUSPECTED)


def test_in_a_pair_the_one_who_came_is_no_ground_where_no_other_pair_came_so_far() -> None:
    """Ranks 2 to 5 have done all they had to do in their pairs, too: rank 0 may have made a call too many."""
    groups = {"tp0": (0, 1), "tp1": (2, 3), "tp2": (4, 5)}
    rows = {rank: [Row(f"tp{rank // 2}", 1)] for rank in range(6)}
    rows[0] = [Row("tp0", 1), Row("tp0", 2, ISSUED)]
    assert judged_records(rows, groups).findings[0].culprit_ranks == ()


def test_in_a_pair_the_absent_one_is_named_where_the_other_pairs_have_gone_on() -> None:
    groups = {"tp0": (0, 1), "tp1": (2, 3), "tp2": (4, 5)}
    rows = {rank: [Row(f"tp{rank // 2}", 1), Row(f"tp{rank // 2}", 2)] for rank in range(6)}
    rows[0] = [Row("tp0", 1), Row("tp0", 2, ISSUED)]
    rows[1] = [Row("tp0", 1)]
    assert judged_records(rows, groups).findings[0].culprit_ranks == (1,)


@pytest.mark.parametrize("op", ["_broadcast_oop", "_reduce_oop"])
def test_parts_of_an_uneven_collective_are_compared_by_size(op: str) -> None:
    rows = {rank: [Row("0", 1, ISSUED, op), Row("0", 1, ISSUED, op, [6], [6])] for rank in range(4)}
    rows[2][1] = Row("0", 1, ISSUED, op, [5], [5])
    finding = judged_records(rows, WORLD).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, (2,))


def test_an_all_reduce_that_expects_another_size_back_is_a_mismatch() -> None:
    rows = {rank: [Row("0", 1, ISSUED, outputs=[20 if rank == 3 else 16])] for rank in range(4)}
    assert judged_records(rows, WORLD).findings[0].culprit_ranks == (3,)


def test_of_an_operation_that_no_row_knows_equal_arguments_are_not_claimed() -> None:
    rows = {rank: [Row("0", 1, ISSUED, "all_shuffle", [rank], [rank])] for rank in range(4)}
    finding = judged_records(rows, WORLD).findings[0]
    assert finding.kind is Kind.STUCK_TOGETHER
    assert "do not differ" not in finding.summary
    assert "none are compared" in finding.remarks[0]


@pytest.mark.parametrize("beside", [[4], [], [0]], ids=["its own share", "nothing", "an empty tensor"])
def test_who_brings_no_share_for_every_member_is_not_taken_for_a_root(beside: list[int]) -> None:
    rows = {rank: [Row("0", 1, ISSUED, "gather", [4], [4] * 4 if rank == 1 else beside)] for rank in range(4)}
    assert judged_records(rows, WORLD).findings[0].kind is Kind.STUCK_TOGETHER
    nobody = {rank: [Row("0", 1, ISSUED, "scatter", [4], [4])] for rank in range(4)}
    assert judged_records(nobody, WORLD).findings[0].kind is Kind.STUCK_TOGETHER


def test_who_expects_another_size_of_an_all_reduce_than_put_in_is_told_with_all_who_do() -> None:
    rows = {rank: [Row("0", 1, ISSUED, inputs=[16], outputs=[20])] for rank in range(2)}
    finding = judged_records(rows, {"0": range(2), "expert": ()}).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, ())
    assert finding.remarks == ("ranks 0-1 expect another size than put in",)


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


def test_who_may_have_been_cut_does_not_speak_for_who_was_not() -> None:
    """Two have the same short batch: of one the ring may have cut it, of the other not."""
    short, whole = batch(SENDS), [*BEFORE, *batch(SENDS, SENDS)]
    (finding,) = judged_records({0: whole, 1: [*BEFORE, *short], 2: short, 3: whole}, WORLD).findings
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, (1,))
