"""Faults, opinions and sentences as rows: each is asked for, and names what there is."""

import pytest

from collector.judge.certainty import Support
from collector.judge.fault_rows import ROWS, fault_by
from collector.judge.logs.vote import VOTES
from collector.judge.report.sentences import ROWS as SENTENCES
from shared.answer.words import Cause, Certainty, Kind
from tests.unit.collector.judge.test_certainty import SOURCES


@pytest.mark.parametrize("table", [*ROWS, *VOTES, *SENTENCES])
def test_each_table_is_asked_for(table: str) -> None:
    assert any(f'"{table}"' in text for text in SOURCES.values())


@pytest.mark.parametrize("row", [row for rows in ROWS.values() for row in rows], ids=str)
def test_each_row_of_faults_names_kind_and_support(row: dict[str, str]) -> None:
    assert row["kind"] in {*Kind} and row.get("cause", "unknown") in {*Cause}
    assert row["support"].upper() in Support.__members__


def test_a_fault_is_its_row_filled_with_who() -> None:
    fault = fault_by(
        "partly_known", (), (2, 0), {"where": "barrier", "others": (1,), "record": "no record"}, op="barrier"
    )
    assert fault.said == "ranks 0,2 wait in barrier, and what rank 1 does is not known"
    assert (fault.kind, fault.victims, fault.remarks) == (Kind.RANK_NOT_JOINED, (0, 2), ("no record",))
    assert (fault.cause, fault.certainty.level) == (Cause.UNKNOWN, Certainty.SUSPECTED)
