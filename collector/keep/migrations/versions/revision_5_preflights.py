"""Preflights that somebody has run."""

from alembic import op
from sqlalchemy import BigInteger, Column, LargeBinary, String

revision = "5"
down_revision = "4"

Id = String(36).with_variant(String(36, collation="C"), "postgresql")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "preflights",
        Column("id", Id, primary_key=True),
        Column("kept_ms", BigInteger, nullable=False),
        Column("size_bytes", BigInteger, nullable=False),
        Column("body", LargeBinary, nullable=False),
    )
