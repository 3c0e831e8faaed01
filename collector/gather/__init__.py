"""Gather: a job's name becomes snapshots of all its nodes."""
