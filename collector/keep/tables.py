"""The tables of the store as the newest migration leaves them, in types that every database has."""

from hashlib import sha256

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, Text, text

REVISION = "3"
"""Version of these tables: the newest of `collector/keep/migrations/versions/`."""

metadata = MetaData()

Id = String(36).with_variant(String(36, collation="C"), "postgresql")
"""A UUID of version 7: its text sorts by time, if the collation does not interfere."""

marks = Table("marks", metadata, Column("name", String(40), primary_key=True), Column("value", Integer, nullable=False))
"""Facts about the database itself; `schema` is what versions of unhang before Alembic ask for."""

diagnoses = Table(
    "diagnoses",
    metadata,
    Column("id", Id, primary_key=True),
    Column("job", Text, nullable=True),
    Column("made_at", String(32), nullable=False),
    Column("made_at_ms", BigInteger, nullable=False),
    Column("verdict", String(20), nullable=False),
    Column("headline", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),  # JSON of the diagnosis, deflated
    Column("expected", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("job_key", String(32), nullable=False, server_default=""),
    Index("diagnoses_by_job_key", "job_key", "id"),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("diagnosis", Id, ForeignKey("diagnoses.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("host", Text, nullable=True),
    Column("body", LargeBinary, nullable=False),  # JSON of the snapshot, deflated
)

_RUNNING = text("status = 'running'")

runs = Table(
    "runs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("job", Text, nullable=True),
    Column("job_key", String(32), nullable=False),
    Column("owner", Text, nullable=False),  # the collector that makes it
    Column("started_at", String(32), nullable=False),
    Column("status", String(12), nullable=False),
    Column("step", Text, nullable=False),  # JSON
    Column("trouble", Text, nullable=True),  # JSON of what ended it
    Column("alive_until_ms", BigInteger, nullable=False),  # of the database's clock
    Index("runs_of_jobs_running", "job_key", unique=True, sqlite_where=_RUNNING, postgresql_where=_RUNNING),
)
"""Diagnoses in progress, and those that failed. The index enforces one running per job."""

agents = Table(
    "agents",
    metadata,
    Column("place_key", String(32), primary_key=True),
    Column("host", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("heard_ms", BigInteger, nullable=False),  # of the database's clock
)
"""Agents that have registered, at any collector, and when each last registered."""


def job_key(job: str | None) -> str:
    """Return a key for a job's name in an index: names may be longer than an index takes, or hold any byte."""
    named = "-" if job is None else f"+{job}"
    return sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def plain(text: str) -> str:
    """Return `text` as every database accepts it: PostgreSQL refuses NUL, and both refuse lone surrogates."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
