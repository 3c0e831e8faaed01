"""Who watches a job, and what is remembered of it, on each kind of database."""

from sqlalchemy import update

from collector.keep.database import Database
from collector.keep.tables import watches
from collector.keep.url import parse_store_place
from tests.unit.collector.conftest import Opener


def expire(place: str) -> None:
    """Let all leases have ended."""
    database = Database(parse_store_place(place))
    with database.write() as connection:
        connection.execute(update(watches).values(alive_until_ms=0))
    database.close()


def test_one_replica_watches_a_job(opened: Opener, place: str) -> None:
    """Until its lease has ended, or it leaves its jobs to others."""
    one, two = opened().watches, opened().watches
    assert one.hold("demo@1") and not two.hold("demo@1") and one.hold("demo@1")
    assert two.hold("other@1")
    expire(place)
    assert two.hold("demo@1") and not one.hold("demo@1")
    two.let_go()
    assert one.hold("demo@1")


def test_what_was_found_once_is_known_to_whoever_takes_over(opened: Opener, place: str) -> None:
    """With its age; whoever finds the job well forgets it for all."""
    one, two = opened().watches, opened().watches
    assert one.suspicion("demo@1") is None
    one.hold("demo@1")
    one.suspect("demo@1", "f" * 32, "d1")
    found = two.suspicion("demo@1")
    assert found is not None and found[:2] == ("f" * 32, "d1") and 0.0 <= found.age_seconds < 60.0
    two.clear("demo@1")
    assert one.suspicion("demo@1") is None


def test_usual_pauses_outlive_runs(opened: Opener) -> None:
    """By the job's name."""
    one, two = opened().watches, opened().watches
    one.hold("demo@1")
    assert two.usual_pause("demo@1") is None
    one.learn("demo@1", 61.5)
    one.let_go()
    assert two.usual_pause("demo@1") == 61.5
    assert two.usual_pause("demo@2") is None
