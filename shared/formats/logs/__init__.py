"""Log lines: one row per line that means something, with a real line above it."""
