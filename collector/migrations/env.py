"""What Alembic runs to bring a store up to date, in the transaction that `collector/migrating.py` has opened."""

from alembic import context

from collector.store_tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
