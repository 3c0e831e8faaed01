"""Foreign formats, read once at the edge."""
