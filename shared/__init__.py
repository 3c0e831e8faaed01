"""What the agent and the collector must agree on: wire types, rank sets, stacks, traces, errors."""

SCHEMA_VERSION = 1
"""Version of the snapshot and diagnosis schemas; raised when a field changes its meaning."""

VERSION = "0.1.0"
"""Version of the `unhang` distribution."""
