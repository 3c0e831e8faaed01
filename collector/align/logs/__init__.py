"""Which rank, group or operation a log line speaks of."""
