"""Attacks on the agent by an ordinary user of its machine, with real programs."""
