"""What the same stage of another pipeline shows of a send that was left out, and when it shows nothing."""

from collections.abc import Mapping, Sequence

import pytest

from shared.answer.words import Certainty, Kind
from tests.build.jobs.records import ISSUED, Row, judged_records

GROUPS = {"0": range(4), "pp0": (0, 1), "pp1": (2, 3)}
STEPS = 4


def sent(rank: int, times: int) -> list[Row]:
    return [Row(f"pp{rank // 2}", 1, op="send", peers=(0, 1))] * times


def received(rank: int, times: int, *, waits: bool = False) -> list[Row]:
    rows = [Row(f"pp{rank // 2}", 1, op="recv", peers=(0, 1))] * times
    return [*rows, Row(f"pp{rank // 2}", 1, ISSUED, "recv", peers=(0, 1))] if waits else rows


def history(rank: int) -> list[Row]:
    """Steps of which none is like another: one micro-batch in the first, two in the second, and so on."""
    passed = sent if rank % 2 == 0 else received
    return [row for step in range(1, STEPS + 1) for row in (*passed(rank, step), Row("0", step))]


def named(last: Mapping[int, Sequence[Row]]) -> tuple[int, ...]:
    """Whom the verdict names where ranks do this in the step after."""
    answer = judged_records({rank: [*history(rank), *rows] for rank, rows in last.items()}, GROUPS)
    return tuple(sorted({rank for finding in answer.findings for rank in finding.culprit_ranks}))


WAITS = Row("0", STEPS + 1, ISSUED)
HEALTHY = {0: [*sent(0, 5), WAITS], 1: [*received(1, 5), WAITS]}


def test_who_sent_less_than_the_same_stage_of_the_other_pipeline_is_named() -> None:
    last = {**HEALTHY, 2: [*sent(2, 4), WAITS], 3: received(3, 4, waits=True)}
    answer = judged_records({rank: [*history(rank), *rows] for rank, rows in last.items()}, GROUPS)
    (finding,) = answer.findings
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (Kind.P2P_UNMATCHED, (2,), Certainty.SUSPECTED)
    assert "4 by rank 2, 5 by rank 0, in the same place of other groups of this role" in finding.remarks[0]


@pytest.mark.parametrize(
    ("zero", "two", "three"),
    [
        ([*sent(0, 5), WAITS], [*sent(2, 5), WAITS], received(3, 5, waits=True)),
        ([*sent(0, 4), WAITS], [*sent(2, 4), WAITS], received(3, 4, waits=True)),
        (sent(0, 5), [*sent(2, 4), WAITS], received(3, 4, waits=True)),
        ([Row("0", STEPS + 1), *sent(0, 5)], [*sent(2, 4), WAITS], received(3, 4, waits=True)),
    ],
    ids=["a receive too many", "all sent so much", "not come so far", "in another order"],
)
def test_nobody_is_named_where_the_other_pipeline_did_no_more(
    zero: list[Row], two: list[Row], three: list[Row]
) -> None:
    assert 2 not in named({0: zero, 1: HEALTHY[1], 2: two, 3: three})


def test_a_pipeline_that_did_other_things_before_is_no_witness() -> None:
    rows = {rank: history(rank) for rank in range(4)}
    rows[0].insert(0, sent(0, 1)[0])
    rows[1].insert(0, received(1, 1)[0])
    last = {**HEALTHY, 2: [*sent(2, 4), WAITS], 3: received(3, 4, waits=True)}
    answer = judged_records({rank: [*rows[rank], *last[rank]] for rank in rows}, GROUPS)
    assert not any(finding.culprits for finding in answer.findings)


def test_one_pipeline_has_no_sibling() -> None:
    rows = {2: [*history(2), *sent(2, 4), WAITS], 3: [*history(3), *received(3, 4, waits=True)]}
    answer = judged_records(rows, {"0": (2, 3), "pp1": (2, 3)})
    assert not any(finding.culprits for finding in answer.findings)
