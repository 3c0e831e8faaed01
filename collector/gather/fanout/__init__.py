"""Asking many agents at once under one deadline, whatever becomes of some of them. See `fanout.py`."""
