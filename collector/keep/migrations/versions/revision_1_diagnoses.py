"""The tables of the first release: diagnoses and their snapshots."""

from alembic import op
from sqlalchemy import BigInteger, Column, ForeignKey, Integer, LargeBinary, String, Text

revision = "1"
down_revision = None

Id = String(36).with_variant(String(36, collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables, and the mark by which versions before Alembic know theirs."""
    marks = op.create_table(
        "marks", Column("name", String(40), primary_key=True), Column("value", Integer, nullable=False)
    )
    op.create_table(
        "diagnoses",
        Column("id", Id, primary_key=True),
        Column("job", Text, nullable=True),
        Column("made_at", String(32), nullable=False),
        Column("made_at_ms", BigInteger, nullable=False),
        Column("verdict", String(20), nullable=False),
        Column("headline", Text, nullable=False),
        Column("body", LargeBinary, nullable=False),
        Column("expected", LargeBinary, nullable=False),
        Column("size_bytes", BigInteger, nullable=False),
    )
    op.create_index("diagnoses_by_job", "diagnoses", ["job", "id"])
    op.create_table(
        "snapshots",
        Column("diagnosis", Id, ForeignKey("diagnoses.id"), primary_key=True),
        Column("position", Integer, primary_key=True),
        Column("host", Text, nullable=True),
        Column("body", LargeBinary, nullable=False),
    )
    op.bulk_insert(marks, [{"name": "schema", "value": 1}])
