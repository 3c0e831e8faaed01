"""A tree of files, and what lies in archives there: each read with a bound on bytes and time."""
