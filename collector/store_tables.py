"""The tables of the store, in types that every database has."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, Text

SCHEMA = 1
"""Version of these tables."""

metadata = MetaData()

marks = Table("marks", metadata, Column("name", String(40), primary_key=True), Column("value", Integer, nullable=False))
"""Facts about the database itself."""

diagnoses = Table(
    "diagnoses",
    metadata,
    Column("id", String(36), primary_key=True),  # sorts by time
    Column("job", Text, nullable=True),
    Column("made_at", String(32), nullable=False),
    Column("made_at_ms", BigInteger, nullable=False),
    Column("verdict", String(20), nullable=False),
    Column("headline", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),  # JSON of the diagnosis, deflated
    Column("expected", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Index("diagnoses_by_job", "job", "id"),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("diagnosis", String(36), ForeignKey("diagnoses.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("host", Text, nullable=True),
    Column("body", LargeBinary, nullable=False),  # JSON of the snapshot, deflated
)
