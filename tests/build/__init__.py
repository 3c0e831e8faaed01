"""Builders that tests share: processes, jobs, agents, snapshots, logs."""
