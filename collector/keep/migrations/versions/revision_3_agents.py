"""Agents that have registered are kept, so that replicas share them and a restart forgets none."""

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Add the table of agents."""
    op.create_table(
        "agents",
        Column("place_key", String(32), primary_key=True),
        Column("host", Text, nullable=False),
        Column("url", Text, nullable=False),
        Column("heard_ms", BigInteger, nullable=False),
    )
