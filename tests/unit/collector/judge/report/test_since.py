"""Since when a finding stands: what records say, else what was seen."""

from datetime import datetime

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from tests.build.jobs.dumps import CASES, snapshots_of
from tests.build.jobs.four_ranks import AWAY, looks_without


def test_since_the_oldest_operation_that_waits() -> None:
    """By the record, and for how long at the last look."""
    looks = looks_without({2: AWAY}, after_seconds=60.0, interval_seconds=3.0)
    (finding,) = diagnose(looks, Expected()).findings
    last = max(look.taken_at_ns or 0 for look in looks) / 1e9
    assert finding.since is not None
    assert finding.lasted_seconds is not None
    assert 63.0 <= finding.lasted_seconds < 64.0
    assert abs(datetime.fromisoformat(finding.since).timestamp() + finding.lasted_seconds - last) < 1.1


def test_without_a_record_since_it_was_seen_at_least() -> None:
    """It may have stood for longer: nobody looked before."""
    looks = looks_without({2: AWAY}, interval_seconds=70.0, recorder=False)
    (finding,) = diagnose(looks, Expected()).findings
    assert finding.lasted_seconds == 70.0


def test_of_files_no_duration_is_known() -> None:
    """A file may be a copy, and nobody knows when the job ended."""
    folder = next(case for case in sorted(CASES.iterdir()) if case.name == "missing_rank2")
    (finding,) = diagnose(snapshots_of(sorted(folder.iterdir())), Expected()).findings
    assert (finding.since is None, finding.lasted_seconds) == (False, None)


def test_where_the_culprit_was_called() -> None:
    """The line of the loop beside that of the helper."""
    (finding,) = diagnose(looks_without({2: AWAY}), Expected()).findings
    assert finding.where is not None
    assert finding.where.call == finding.where.user
