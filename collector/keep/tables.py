"""The tables of the store as the newest migration leaves them, in types that every database has."""

from hashlib import sha256

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, Text, text

REVISION = "9"
"""Version of these tables, and of the newest migration: whoever changes a table adds one to `migrations/versions/`."""

metadata = MetaData()

Id = String(36).with_variant(String(36, collation="C"), "postgresql")
"""A UUID of version 7: its text sorts by time, if the collation does not interfere."""

versions = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))
"""Which revision the tables have, as Alembic keeps it."""

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
    Column("unasked", Integer, nullable=False, server_default="0"),  # made because the collector watches
    Column("owner", Text, nullable=True),  # the job's user, as agents report it
    Column("namespaces", Text, nullable=False, server_default=""),  # of its pods, sorted, with commas
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


_LIVE = text("live = 1")

incidents = Table(
    "incidents",
    metadata,
    Column("id", Id, primary_key=True),
    Column("job_key", String(32), nullable=False),
    Column("fingerprint", String(32), nullable=False),
    Column("state", String(12), nullable=False),
    Column("live", Integer, nullable=False),  # 1 while it is not over
    Column("changed_ms", BigInteger, nullable=False),  # of the database's clock
    Column("body", Text, nullable=False),  # JSON
    Index("incidents_live", "fingerprint", unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE),
    Index("incidents_by_job_key", "job_key", "id"),
)
"""The index enforces one incident per fingerprint that is not over."""

incident_hosts = Table(
    "incident_hosts",
    metadata,
    Column("incident", Id, ForeignKey("incidents.id"), primary_key=True),
    Column("host_key", String(32), primary_key=True),
    Index("incident_hosts_by_key", "host_key"),
)
"""Nodes of culprits."""

incident_diagnoses = Table(
    "incident_diagnoses",
    metadata,
    Column("incident", Id, ForeignKey("incidents.id"), primary_key=True),
    Column("diagnosis", Id, primary_key=True),
    Index("incident_diagnoses_by_diagnosis", "diagnosis"),
)
"""Diagnoses that are kept as long as the incident that they show."""

events = Table(
    "events",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False),  # of the database's clock
    Column("kind", String(16), nullable=False),
    Column("incident", Id, nullable=False),
    Column("body", Text, nullable=False),  # JSON of the event
)
"""What happened to incidents, append-only. Whoever has read up to an id misses nothing by reading on from there:
events are numbered under a lock that is held until they are committed."""

silences = Table(
    "silences",
    metadata,
    Column("id", Id, primary_key=True),
    Column("starts_ms", BigInteger, nullable=False),
    Column("ends_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("body", Text, nullable=False),  # JSON
    Index("silences_by_end", "ends_ms"),
)

receivers = Table(
    "receivers",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("read_to", BigInteger, nullable=False),  # number of the last event that was looked at for it
    Column("since", BigInteger, nullable=False),  # the newest event when it was first seen
)
"""Who is told of incidents, and up to which event."""

_WAITING = text("state IN ('waiting', 'repeating')")

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    Column("receiver", String(64), nullable=False),
    Column("incident", Id, nullable=False),
    Column("event", BigInteger, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("state", String(12), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created_ms", BigInteger, nullable=False),  # of the database's clock, as the others
    Column("due_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger, nullable=True),
    Column("owner", Text, nullable=True),  # the collector that is sending it
    Column("until_ms", BigInteger, nullable=False),  # when its lease ends
    Column("trouble", Text, nullable=False),
    Column("body", Text, nullable=False),  # JSON of the event
    Column("reference", Text, nullable=True),  # what the receiver calls it
    Index("deliveries_once", "receiver", "event", unique=True),
    Index("deliveries_of_incidents", "incident", "receiver"),
    Index("deliveries_due", "due_ms", sqlite_where=_WAITING, postgresql_where=_WAITING),
)
"""The outbox: messages to receivers. An index enforces one per receiver and event."""

watches = Table(
    "watches",
    metadata,
    Column("job_key", String(32), primary_key=True),
    Column("owner", Text, nullable=False),  # the collector that asks about the job
    Column("alive_until_ms", BigInteger, nullable=False),  # of the database's clock
    Column("suspect", String(32), nullable=True),  # fingerprint found hung once
    Column("suspect_ms", BigInteger, nullable=True),
    Column("suspect_diagnosis", Id, nullable=True),
    Column("usual_pause_ms", BigInteger, nullable=True),  # the longest one learnt
    Column("seen_ms", BigInteger, nullable=False),
)
"""Who watches a job, what it was found hung with once, and how long jobs of that name usually pause."""

preflights = Table(
    "preflights",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kept_ms", BigInteger, nullable=False),  # of the database's clock
    Column("size_bytes", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),  # JSON of the result, deflated
    Column("result", String(64), nullable=True),  # digest of its id
    Index("preflights_once", "result", unique=True),
)
"""What `unhang preflight` found, as whoever ran it has sent it."""


def job_key(job: str | None) -> str:
    """Return a key for a job's name in an index: names may be longer than an index takes, or hold any byte."""
    named = "-" if job is None else f"+{job}"
    return sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def host_key(host: str) -> str:
    """Return a key for a node's name in an index."""
    return job_key(host)


def plain(text: str) -> str:
    """Return `text` as every database accepts it: PostgreSQL refuses NUL, and both refuse lone surrogates."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
