"""Benchmarks: figures, not tests. `make bench` runs them all and prints a table for docs/benchmarks.md."""
