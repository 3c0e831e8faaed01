"""A store's tables: made once, brought up to date without loss, and left alone where a later version wrote them."""

import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, inspect, text

import collector.keep.migrate
from collector.align.expected import Expected
from collector.keep.database import Database
from collector.keep.migrate import migrate
from collector.keep.store import Store
from collector.keep.tables import REVISION, metadata, runs
from collector.keep.url import parse_store_place
from shared.errors import InvalidSettings
from tests.architecture.import_graph import REPOSITORY
from tests.unit.collector.conftest import Opener
from tests.unit.collector.keep.test_store import NOW_NS, made, save


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


def test_tables_of_somebody_else_are_left_alone(tmp_path: Path) -> None:
    """Tables that no version of ours has made are nobody's to change."""
    file = tmp_path / "store.sqlite3"
    with sqlite3.connect(file) as raw:
        raw.execute("CREATE TABLE diagnoses (id TEXT)")
    raw.close()
    with pytest.raises(InvalidSettings, match="schema unknown"):
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


def test_store_is_migrated_beside_collectors_that_write(
    place: str, opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replicas of the version before go on saving and reading meanwhile: nothing fails, and nothing is lost."""
    replicas = [opened() for _ in range(3)]
    saved: list[list[str]] = [[] for _ in replicas]
    done = threading.Event()

    def keep_saving(number: int) -> None:
        at_ns = NOW_NS + number
        while not done.is_set():
            at_ns += 10**9
            saved[number] += save(replicas[number], at_ns)
            assert replicas[number].list(limit=1)

    _have_one_more_revision(tmp_path, monkeypatch, "import time; time.sleep(0.5)")
    with ThreadPoolExecutor(len(replicas)) as threads:
        writing = [threads.submit(keep_saving, number) for number in range(len(replicas))]
        _wait_for(lambda: all(len(ids) > 5 for ids in saved))
        later = database(place)
        migrate(later)
        later.close()
        before = sum(map(len, saved))
        _wait_for(lambda: sum(map(len, saved)) > before + 5)
        done.set()
        for each in writing:
            each.result()
    assert {listed.id for listed in replicas[0].list(limit=1000)} == {id for ids in saved for id in ids}


_LATER = str(int(REVISION) + 1)
_NEXT = """
import sqlalchemy
from alembic import op
revision, down_revision = "{later}", "{now}"
def upgrade():
    op.add_column("runs", sqlalchemy.Column("note", sqlalchemy.Text))
    {more}
"""


@pytest.mark.parametrize("more", ["", "raise RuntimeError('half way')"], ids=["done", "failed"])
def test_store_is_migrated_whole_or_not_at_all(
    place: str, opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """By a version that has one migration more; what a store holds is there afterwards."""
    store = opened()
    ids = save(store, NOW_NS)
    _have_one_more_revision(tmp_path, monkeypatch, more)
    later = database(place)
    with pytest.raises(RuntimeError, match="half way") if more else nullcontext():
        migrate(later)
    with later.read() as connection:
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        assert found == (REVISION if more else _LATER)
        assert ("note" in {column["name"] for column in inspect(connection).get_columns("runs")}) is not bool(more)
    later.close()
    assert [listed.id for listed in store.list()] == ids


def _have_one_more_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    """Be a version that has one migration more."""
    shutil.copytree(collector.keep.migrate._FOLDER, tmp_path / "migrations")
    script = _NEXT.format(later=_LATER, now=REVISION, more=more)
    (tmp_path / "migrations" / "versions" / f"revision_{_LATER}.py").write_text(script)
    monkeypatch.setattr(collector.keep.migrate, "_FOLDER", tmp_path / "migrations")
    monkeypatch.setattr(collector.keep.migrate, "REVISION", _LATER)


def _wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_tables_are_made_whole_or_not_at_all(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails when half of them are there leaves none."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("half way")

    opened = database(place)
    event.listen(runs, "after_create", fail)
    try:
        with pytest.raises(RuntimeError, match="half way"):
            migrate(opened)
    finally:
        event.remove(runs, "after_create", fail)
    with opened.read() as connection:
        assert inspect(connection).get_table_names() == []
    migrate(opened)
    opened.close()


def test_new_store_needs_no_alembic(tmp_path: Path) -> None:
    """A collector that makes a store, or starts on one of its own version, does not wait for its import."""
    opens = "from collector.keep.store import Store; Store(sys.argv[1]).close()"
    program = f"import sys; {opens}; print('alembic' in sys.modules)"
    command = [sys.executable, "-c", program, str(tmp_path / "store.sqlite3")]
    said = [subprocess.check_output(command, cwd=REPOSITORY, text=True).strip() for _ in range(2)]
    assert said == ["False", "False"]


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
