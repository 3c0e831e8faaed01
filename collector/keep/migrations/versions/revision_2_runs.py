"""Runs are kept while they are being made; diagnoses are found by a key of their job, whatever its name."""

from hashlib import sha256

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text, column, select, table, text, update

revision = "2"
down_revision = "1"

Id = String(36).with_variant(String(36, collation="C"), "postgresql")
_RUNNING = text("status = 'running'")

_diagnoses = table("diagnoses", column("id"), column("job"), column("job_key"))
_marks = table("marks", column("name"), column("value"))


def upgrade() -> None:
    """Add the table of runs and the column of keys, and fill the keys in."""
    op.add_column("diagnoses", Column("job_key", String(32), nullable=False, server_default=""))
    connection = op.get_bind()
    for (job,) in connection.execute(select(_diagnoses.c.job).distinct()).all():
        named = _diagnoses.c.job.is_(None) if job is None else _diagnoses.c.job == job
        connection.execute(update(_diagnoses).where(named).values(job_key=_key(job)))
    op.drop_index("diagnoses_by_job", "diagnoses")
    op.create_index("diagnoses_by_job_key", "diagnoses", ["job_key", "id"])
    op.create_table(
        "runs",
        Column("id", Id, primary_key=True),
        Column("job", Text, nullable=True),
        Column("job_key", String(32), nullable=False),
        Column("owner", Text, nullable=False),
        Column("started_at", String(32), nullable=False),
        Column("status", String(12), nullable=False),
        Column("step", Text, nullable=False),
        Column("trouble", Text, nullable=True),
        Column("alive_until_ms", BigInteger, nullable=False),
    )
    op.create_index(
        "runs_of_jobs_running",
        "runs",
        ["job_key"],
        unique=True,
        sqlite_where=_RUNNING,
        postgresql_where=_RUNNING,
    )
    op.execute(update(_marks).where(_marks.c.name == "schema").values(value=2))


def _key(job: str | None) -> str:
    named = "-" if job is None else f"+{job}"
    return sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]
