"""Detect: digests of agents and diagnoses -> the state of each job, when to look at it, and when to raise an alarm."""
