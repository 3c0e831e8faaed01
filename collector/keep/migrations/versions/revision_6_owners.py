"""Whose job a diagnosis is of, where it ran, and whether anybody asked for it."""

from alembic import op
from sqlalchemy import Column, Integer, Text

revision = "6"
down_revision = "5"


def upgrade() -> None:
    """Add the columns. Nobody knows any more whose job an older diagnosis is of: only who sees all jobs sees those."""
    op.add_column("diagnoses", Column("unasked", Integer, nullable=False, server_default="0"))
    op.add_column("diagnoses", Column("owner", Text, nullable=True))
    op.add_column("diagnoses", Column("namespaces", Text, nullable=False, server_default=""))
