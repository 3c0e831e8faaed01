"""A store's tables: made once, brought up to date without loss, and left alone where a later version wrote them."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from collector.align.expected import Expected
from collector.keep.database import Database
from collector.keep.migrate import migrate
from collector.keep.store import Store
from collector.keep.tables import REVISION, metadata
from collector.keep.url import parse_store_place
from shared.errors import InvalidSettings
from tests.architecture.import_graph import REPOSITORY
from tests.unit.collector.conftest import Opener
from tests.unit.collector.keep.test_store import NOW_NS, made, save

_FIRST_RELEASE = """
CREATE TABLE marks (name VARCHAR(40) NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (name));
CREATE TABLE diagnoses (
    id VARCHAR(36) NOT NULL, job TEXT, made_at VARCHAR(32) NOT NULL, made_at_ms BIGINT NOT NULL,
    verdict VARCHAR(20) NOT NULL, headline TEXT NOT NULL, body BLOB NOT NULL, expected BLOB NOT NULL,
    size_bytes BIGINT NOT NULL, PRIMARY KEY (id)
);
CREATE INDEX diagnoses_by_job ON diagnoses (job, id);
CREATE TABLE snapshots (
    diagnosis VARCHAR(36) NOT NULL, position INTEGER NOT NULL, host TEXT, body BLOB NOT NULL,
    PRIMARY KEY (diagnosis, position), FOREIGN KEY(diagnosis) REFERENCES diagnoses (id)
);
INSERT INTO marks VALUES ('schema', 1);
"""
"""What the release before Alembic made."""


@pytest.fixture
def place(new_place: str) -> str:
    """Here no store is there before."""
    return new_place


def database(place: str) -> Database:
    """A database as the store opens it, without tables."""
    found = parse_store_place(place)
    if found.file is not None:
        found.file.touch()
    return Database(found)


def test_tables_are_those_of_the_sources(place: str) -> None:
    """What the migrations make is what the statements of the store speak of, down to types and indices."""
    opened = database(place)
    migrate(opened)
    with opened.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    opened.close()


def test_newest_revision_is_the_one_of_the_sources() -> None:
    """A migration that was added, and a constant that was not, would leave every store behind."""
    config = Config()
    config.set_main_option("script_location", str(REPOSITORY / "collector" / "keep" / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [REVISION]


def test_store_of_the_first_release_is_adopted(tmp_path: Path) -> None:
    """Its diagnoses are there afterwards, also job by job; the release that wrote it would now refuse it."""
    file = tmp_path / "store.sqlite3"
    new = Store(tmp_path / "new.sqlite3")
    ids = [*save(new, NOW_NS), *save(new, NOW_NS + 10**6, job="b"), *save(new, NOW_NS + 2 * 10**6, job=None)]
    new.close()
    columns = "id, job, made_at, made_at_ms, verdict, headline, body, expected, size_bytes"
    with sqlite3.connect(file) as raw:
        raw.executescript(_FIRST_RELEASE)
        raw.execute("ATTACH ? AS new", (str(tmp_path / "new.sqlite3"),))
        raw.execute(f"INSERT INTO diagnoses SELECT {columns} FROM new.diagnoses")
    raw.close()

    store = Store(file)
    assert [listed.id for listed in store.list()] == ids[::-1]
    assert [listed.id for listed in store.list(job="b")] == [ids[1]]
    assert store.kept(ids[2]).diagnosis.job is None
    save(store, NOW_NS + 3 * 10**6)
    store.close()
    with sqlite3.connect(file) as raw:
        assert raw.execute("SELECT value FROM marks WHERE name = 'schema'").fetchall() == [(2,)]
    raw.close()


def test_store_of_a_later_version_is_left_alone(place: str, opened: Opener) -> None:
    """It is refused with both versions named, and not changed."""
    save(opened(), NOW_NS)
    later = database(place)
    with later.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '99'"))
    with pytest.raises(InvalidSettings, match=f"schema 99, this version needs {REVISION}") as caught:
        opened()
    with later.read() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "99"
    later.close()
    assert "version of unhang" in caught.value.advice


def test_later_mark_without_alembic_is_refused(tmp_path: Path) -> None:
    """Tables that no version of ours has made are nobody's to change."""
    file = tmp_path / "store.sqlite3"
    with sqlite3.connect(file) as raw:
        raw.executescript(_FIRST_RELEASE.replace("('schema', 1)", "('schema', 7)"))
    raw.close()
    with pytest.raises(InvalidSettings, match="schema 7"):
        Store(file)


def test_replicas_that_start_at_once_make_the_tables_once(place: str) -> None:
    """Whoever comes second waits, and finds them done."""
    failures: list[BaseException] = []

    def start() -> None:
        try:
            Store(place).close()
        except InvalidSettings as error:
            failures.append(error)

    starting = [threading.Thread(target=start) for _ in range(4)]
    for thread in starting:
        thread.start()
    for thread in starting:
        thread.join()
    assert failures == []
    Store(place).close()


def test_failed_migration_leaves_the_tables_as_they_were(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All revisions are one transaction: what fails after tables have changed has changed nothing."""
    run_env = ScriptDirectory.run_env

    def fail_at_the_end(self: ScriptDirectory) -> None:
        run_env(self)
        raise RuntimeError("half way")

    monkeypatch.setattr(ScriptDirectory, "run_env", fail_at_the_end)
    opened = database(place)
    with pytest.raises(RuntimeError, match="half way"):
        migrate(opened)
    with opened.read() as connection:
        assert inspect(connection).get_table_names() == []
    monkeypatch.undo()
    migrate(opened)
    opened.close()


_OPENS_TWICE = """
import os, sys
from collector.keep.store import Store
for _ in range(2):
    child = os.fork()
    if child == 0:
        Store(sys.argv[1]).close()
        print("alembic" in sys.modules)
        break
    os.waitpid(child, 0)
"""


def test_alembic_is_loaded_only_when_there_is_something_to_do(tmp_path: Path) -> None:
    """A collector that starts on a store of its own version does without."""
    command = [sys.executable, "-c", _OPENS_TWICE, str(tmp_path / "store.sqlite3")]
    said = subprocess.check_output(command, cwd=REPOSITORY, text=True)
    assert said.split() == ["True", "False"]


@pytest.mark.parametrize(
    "job", ["x" * 20_000, "a\0b", "half \ud800", "ü/ß:1"], ids=["long", "nul", "surrogate", "letters"]
)
def test_names_of_jobs_that_databases_do_not_like(opened: Opener, job: str) -> None:
    """Whatever a job calls itself, its diagnoses are kept, and found under that name."""
    store = opened()
    diagnosis = made(NOW_NS).model_copy(update={"headline": "nul \0 inside"})
    looked_at = Expected()
    store.save(diagnosis.model_copy(update={"job": job.encode("utf-8", "replace").decode()}), looked_at, [])
    (listed,) = store.list(job=job.encode("utf-8", "replace").decode())
    assert listed.id == diagnosis.id
    assert store.list(job="another") == ()
