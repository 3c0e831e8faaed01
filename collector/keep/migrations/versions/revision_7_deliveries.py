"""Who is told of incidents, and the messages to them."""

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, String, Text, text

revision = "7"
down_revision = "6"

Id = String(36).with_variant(String(36, collation="C"), "postgresql")
_WAITING = text("state IN ('waiting', 'repeating')")


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "receivers",
        Column("name", String(64), primary_key=True),
        Column("read_to", BigInteger, nullable=False),
        Column("since", BigInteger, nullable=False),
    )
    op.create_table(
        "deliveries",
        Column("id", Id, primary_key=True),
        Column("receiver", String(64), nullable=False),
        Column("incident", Id, nullable=False),
        Column("event", BigInteger, nullable=False),
        Column("kind", String(16), nullable=False),
        Column("state", String(12), nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("created_ms", BigInteger, nullable=False),
        Column("due_ms", BigInteger, nullable=False),
        Column("ended_ms", BigInteger, nullable=True),
        Column("owner", Text, nullable=True),
        Column("until_ms", BigInteger, nullable=False),
        Column("trouble", Text, nullable=False),
        Column("body", Text, nullable=False),
    )
    op.create_index("deliveries_once", "deliveries", ["receiver", "event"], unique=True)
    op.create_index("deliveries_of_incidents", "deliveries", ["incident", "receiver"])
    op.create_index("deliveries_due", "deliveries", ["due_ms"], sqlite_where=_WAITING, postgresql_where=_WAITING)
