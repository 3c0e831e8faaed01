"""Migrate a store's tables, once, by the replica that starts first.

1. Read the revision of the tables; if it is ours, that is all, and Alembic is not even imported.
2. Else wait for the lock and read again: another replica may have done the work in the meantime.
3. Refuse what a later version wrote. Adopt the tables of the first release, which did not use Alembic.
4. Run the missing migrations in one transaction: a kill leaves the tables as they were.
"""

from pathlib import Path

from sqlalchemy import Connection, inspect, select, text

from collector.keep.database import Database
from collector.keep.tables import REVISION, marks
from shared.errors import InvalidSettings

_FOLDER = Path(__file__).parent / "migrations"
_BEFORE_ALEMBIC = 1
"""The mark `schema` of the first release; its tables are those of revision 1."""


def migrate(database: Database) -> None:
    """Bring the tables up to date. Raises InvalidSettings where a later version wrote them, and StoreTrouble."""
    with database.read() as connection:
        found = _revision(connection)
    if found == REVISION:
        return
    with database.write() as connection:
        database.lock(connection, "migration")
        found = _revision(connection)
        if found != REVISION:
            _upgrade(connection, database.where, adopted=found is None and _has_first_tables(connection, database))


def _revision(connection: Connection) -> str | None:
    """Return the revision that Alembic recorded."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _has_first_tables(connection: Connection, database: Database) -> bool:
    if not inspect(connection).has_table(marks.name):
        return False
    schema = connection.execute(select(marks.c.value).where(marks.c.name == "schema")).scalar_one_or_none()
    if schema != _BEFORE_ALEMBIC:
        raise _refused(database.where, str(schema))
    return True


def _upgrade(connection: Connection, where: str, *, adopted: bool) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    if adopted:
        command.stamp(config, str(_BEFORE_ALEMBIC))
    try:
        command.upgrade(config, REVISION)
    except CommandError as error:
        raise _refused(where, _revision(connection) or "unknown") from error


def _refused(where: str, schema: str) -> InvalidSettings:
    return InvalidSettings(
        f"the store {where} has schema {schema}, this version needs {REVISION}",
        advice="use the version of unhang that wrote it, or name another store",
    )
