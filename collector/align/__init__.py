"""Align: snapshots become ranks, nodes, process groups and stacks that can be compared. Pure."""
