"""Finding the agents: one file per way, all side by side, put together in `directory.py`."""
