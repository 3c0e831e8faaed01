"""Issued is not begun: on a device the older operation that holds a queue is followed to the rank behind it."""

from shared.answer.words import Certainty, Kind, Verdict
from tests.build.jobs.records import DONE, ISSUED, STARTED, Row, judged_records

GROUPS = {"0": range(4), "tp0": (0, 1), "tp1": (2, 3)}


def test_the_rank_behind_an_older_operation_is_the_root_though_all_have_issued_the_newer_one() -> None:
    """Rank 3 has issued the world's operation early and never comes to tp1; rank 2's queue is held by tp1."""
    rows = {
        0: [Row("tp0", 1), Row("0", 1, ISSUED)],
        1: [Row("tp0", 1), Row("0", 1, ISSUED)],
        2: [Row("tp1", 1, ISSUED), Row("0", 1, ISSUED)],
        3: [Row("0", 1, ISSUED)],
    }
    answer = judged_records(rows | {3: []}, GROUPS)
    assert [(f.kind, f.culprit_ranks, f.victims) for f in answer.findings] == [(Kind.RANK_NOT_JOINED, (3,), "0-2")]
    assert answer.findings[0].group is not None


def test_where_starts_are_recorded_the_rank_whose_device_has_not_begun_is_suspected() -> None:
    begun = [Row("tp0", 1), Row("0", 1, STARTED)]
    rows = {0: begun, 1: begun, 2: [Row("tp1", 1), Row("0", 1, STARTED)], 3: [Row("tp1", 1), Row("0", 1, ISSUED)]}
    finding = judged_records(rows, GROUPS, timed=True).findings[0]
    assert (finding.kind, finding.culprit_ranks, finding.victims) == (Kind.STUCK_TOGETHER, (3,), "0-2")
    assert finding.certainty is Certainty.SUPPORTED
    assert "has not started" in " ".join(finding.remarks)


def test_where_nobodys_device_has_begun_nobody_is_named() -> None:
    rows = {rank: [Row(f"tp{rank // 2}", 1), Row("0", 1, ISSUED)] for rank in range(4)}
    assert [(f.kind, f.culprit_ranks) for f in judged_records(rows, GROUPS, timed=True).findings] == [
        (Kind.STUCK_TOGETHER, ())
    ]


def test_two_queues_filled_in_other_orders_wait_for_each_other() -> None:
    """All is issued, nothing is absent: only the order on the devices differs, on rank 3."""
    groups = {"a": range(4), "b": range(4)}
    rows = {rank: [Row("a", 1, ISSUED), Row("b", 1, ISSUED)] for rank in range(3)}
    rows[3] = [Row("b", 1, ISSUED), Row("a", 1, ISSUED)]
    finding = judged_records(rows, groups).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.ORDER_INVERSION, (3,))


def test_gloo_has_no_queue_so_an_older_operation_holds_nothing() -> None:
    groups = {"a": range(3), "b": range(3)}
    rows = {rank: [Row("a", 1, DONE, backend="gloo"), Row("b", 1, ISSUED, backend="gloo")] for rank in range(3)}
    answer = judged_records(rows, groups)
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())
    assert "ranks 0-2 wait in all_reduce #1 of group b" in answer.headline


def test_a_receive_waits_for_a_send_that_is_behind_a_collective() -> None:
    groups = {"0": range(3), "tp": (1, 2)}
    rows = {
        0: [Row("0", 1, ISSUED, "recv", (), (16,), (1, 0))],
        1: [Row("tp", 1, ISSUED), Row("0", 1, ISSUED, "send", (16,), (), (1, 0))],
        2: [],
    }
    finding = judged_records(rows, groups).findings[0]
    assert (finding.kind, finding.culprit_ranks, finding.victims) == (Kind.RANK_NOT_JOINED, (2,), "0-1")
