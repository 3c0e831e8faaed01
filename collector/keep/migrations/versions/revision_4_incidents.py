"""Incidents with their events, silences, and who watches which job."""

from alembic import op
from sqlalchemy import BigInteger, Column, ForeignKey, Integer, String, Text, text

revision = "4"
down_revision = "3"

Id = String(36).with_variant(String(36, collation="C"), "postgresql")
_LIVE = text("live = 1")


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "incidents",
        Column("id", Id, primary_key=True),
        Column("job_key", String(32), nullable=False),
        Column("fingerprint", String(32), nullable=False),
        Column("state", String(12), nullable=False),
        Column("live", Integer, nullable=False),
        Column("changed_ms", BigInteger, nullable=False),
        Column("body", Text, nullable=False),
    )
    op.create_index(
        "incidents_live", "incidents", ["fingerprint"], unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE
    )
    op.create_index("incidents_by_job_key", "incidents", ["job_key", "id"])
    op.create_table(
        "incident_hosts",
        Column("incident", Id, ForeignKey("incidents.id"), primary_key=True),
        Column("host_key", String(32), primary_key=True),
    )
    op.create_index("incident_hosts_by_key", "incident_hosts", ["host_key"])
    op.create_table(
        "incident_diagnoses",
        Column("incident", Id, ForeignKey("incidents.id"), primary_key=True),
        Column("diagnosis", Id, primary_key=True),
    )
    op.create_index("incident_diagnoses_by_diagnosis", "incident_diagnoses", ["diagnosis"])
    op.create_table(
        "events",
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
        Column("at_ms", BigInteger, nullable=False),
        Column("kind", String(16), nullable=False),
        Column("incident", Id, nullable=False),
        Column("body", Text, nullable=False),
    )
    op.create_table(
        "silences",
        Column("id", Id, primary_key=True),
        Column("starts_ms", BigInteger, nullable=False),
        Column("ends_ms", BigInteger, nullable=False),
        Column("updated_ms", BigInteger, nullable=False),
        Column("body", Text, nullable=False),
    )
    op.create_index("silences_by_end", "silences", ["ends_ms"])
    op.create_table(
        "watches",
        Column("job_key", String(32), primary_key=True),
        Column("owner", Text, nullable=False),
        Column("alive_until_ms", BigInteger, nullable=False),
        Column("suspect", String(32), nullable=True),
        Column("suspect_ms", BigInteger, nullable=True),
        Column("suspect_diagnosis", Id, nullable=True),
        Column("usual_pause_ms", BigInteger, nullable=True),
        Column("seen_ms", BigInteger, nullable=False),
    )
