"""Tests of agent/sources/awaited/."""
