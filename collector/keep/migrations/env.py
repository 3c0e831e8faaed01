"""What Alembic runs to bring a store up to date, in the transaction that `collector/keep/migrate.py` has opened."""

from alembic import context

from collector.keep.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
