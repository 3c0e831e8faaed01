"""The flight record of a rank that nobody prepared, copied from its memory while it runs, waits or is stopped."""
