"""Where diagnoses are kept: a file, or a database by its URL."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from shared.errors import InvalidSettings

_POSTGRESQL = "postgresql+psycopg"
_SPELLINGS = frozenset({"postgres", "postgresql", _POSTGRESQL})
_ADVICE = "name a file, sqlite:///FILE, or postgresql://USER@HOST/DATABASE"


@dataclass(frozen=True)
class StorePlace:
    """One database."""

    url: URL
    file: Path | None = None
    """Of SQLite."""

    @property
    def shown(self) -> str:
        """Return it for messages: without user and password, which a URL may also carry in its query."""
        if self.file is not None:
            return str(self.file)
        host = self.url.host or self.url.query.get("host", "localhost")
        return f"postgresql://{host}/{self.url.database or ''}"


def parse_store_place(text: str | Path) -> StorePlace:
    """Return the place that a setting names. Raises InvalidSettings without the URL, which may hold a password."""
    if isinstance(text, Path) or "://" not in text:
        return _sqlite(Path(text))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise InvalidSettings("the store's URL does not parse", advice=_ADVICE) from error
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        if not url.database or url.database == ":memory:" or url.query:
            raise InvalidSettings("the store's URL names no file, or more than one", advice=_ADVICE)
        return _sqlite(Path(url.database))
    if url.drivername not in _SPELLINGS:
        raise InvalidSettings("the store's URL names neither SQLite nor PostgreSQL", advice=_ADVICE)
    return StorePlace(url=url.set(drivername=_POSTGRESQL))


def _sqlite(file: Path) -> StorePlace:
    return StorePlace(url=URL.create("sqlite", database=str(file)), file=file)
