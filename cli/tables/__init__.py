"""Tables for people: one aspect of a job over all its ranks."""
