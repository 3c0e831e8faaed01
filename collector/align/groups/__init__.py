"""Process groups with the sequence of every rank side by side."""
