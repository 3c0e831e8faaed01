"""Threads, tasks and garbage collection of the service, with a bound on every wait."""
