"""Make a store's tables, or migrate them, once, by the replica that starts first.

1. Read the revision of the tables; if it is ours, that is all.
2. Else wait for the lock and read again: another replica may have done the work in the meantime.
3. Where there are no tables, make the newest.
4. Else run the migrations that are missing. Refuse what a later version wrote, or none of ours.

All of it is one transaction: a kill leaves the tables as they were.
"""

from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select

from collector.keep.database import Database
from collector.keep.tables import REVISION, metadata, versions
from shared.errors import InvalidSettings

_FOLDER = Path(__file__).parent / "migrations"


def migrate(database: Database) -> None:
    """Bring the tables up to date. Raises InvalidSettings where a later version wrote them, and StoreTrouble."""
    with database.read() as connection:
        found = _revision(connection)
    if found == REVISION:
        return
    with database.write() as connection:
        database.lock(connection, "migration")
        found = _revision(connection)
        if found is None and not inspect(connection).get_table_names():
            metadata.create_all(connection)
            connection.execute(insert(versions).values(version_num=REVISION))
        elif found != REVISION:
            _upgrade(connection, database.where, found)


def _revision(connection: Connection) -> str | None:
    """Return the revision that Alembic, or who made the tables, recorded."""
    if not inspect(connection).has_table(versions.name):
        return None
    return connection.execute(select(versions.c.version_num)).scalar_one_or_none()


def _upgrade(connection: Connection, where: str, found: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    refused = InvalidSettings(
        f"the store {where} has schema {found or 'unknown'}, this version needs {REVISION}",
        advice="use the version of unhang that wrote it, or name another store",
    )
    if found is None:
        raise refused
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    try:
        command.upgrade(config, REVISION)
    except CommandError as error:
        raise refused from error
