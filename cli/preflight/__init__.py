"""Nodes tried by small jobs, handed out by a coordinator, until the bad ones are named."""
