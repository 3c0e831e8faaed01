"""Files in the place of agents: what a file is, and what it holds."""
