"""The setting `store`: a file or a URL, and never a password in what is said about it."""

import sys
from pathlib import Path

import pytest

from collector.keep.database import Database
from collector.keep.store import Store
from collector.keep.url import parse_store_place
from shared.errors import InvalidSettings


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("store.sqlite3", "store.sqlite3"),
        ("/var/lib/unhang/store.sqlite3", "/var/lib/unhang/store.sqlite3"),
        ("sqlite:////var/lib/unhang/store.sqlite3", "/var/lib/unhang/store.sqlite3"),
        ("sqlite:///store.sqlite3", "store.sqlite3"),
        ("/odd/100%/a?b#c", "/odd/100%/a?b#c"),
    ],
)
def test_files(text: str, file: str) -> None:
    """A path is taken as it is; SQLite's URL has three slashes before it."""
    assert parse_store_place(text).file == Path(file)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql(scheme: str) -> None:
    """However it is spelt, it is the one driver; what is shown has neither user nor password."""
    place = parse_store_place(f"{scheme}://ann:s3cret@db.example.org:5433/unhang?sslmode=require&password=s3cret")
    assert (place.file, place.url.drivername, place.url.port) == (None, "postgresql+psycopg", 5433)
    assert place.shown == "postgresql://db.example.org/unhang"
    assert parse_store_place(f"{scheme}:///unhang?host=/run/postgresql").shown == "postgresql:///run/postgresql/unhang"


@pytest.mark.parametrize(
    "text",
    ["mysql://ann:s3cret@db/x", "postgresql+asyncpg://ann:s3cret@db/x", "sqlite://", "sqlite:///:memory:", "://"],
)
def test_what_cannot_be_used_is_refused_without_being_shown(text: str) -> None:
    """One sentence that says what could stand there, and no word of the URL."""
    with pytest.raises(InvalidSettings) as caught:
        parse_store_place(text)
    assert "postgresql://" in caught.value.advice
    assert "s3cret" not in str(caught.value) + caught.value.advice


def test_driver_that_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has not installed the extra is told which it is."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidSettings, match="psycopg") as caught:
        Database(parse_store_place("postgresql://db/unhang"))
    assert "unhang[postgres]" in caught.value.advice


def test_server_that_is_not_there(tmp_path: Path) -> None:
    """A collector does not start without its database, and says why in one sentence without the password."""
    with pytest.raises(InvalidSettings, match="cannot be used") as caught:
        Store(f"postgresql://ann:s3cret@/unhang?host={tmp_path}")
    assert "s3cret" not in str(caught.value)
    assert "server up" in caught.value.advice
