"""Keep: diagnoses, runs and registrations in SQLite or PostgreSQL."""
