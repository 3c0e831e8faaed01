"""Readers of log lines that count a group's operations: each fills the one table, `align/groups/table.py`."""
