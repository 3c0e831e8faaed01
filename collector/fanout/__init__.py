"""Asking many agents at once under one deadline, whatever becomes of some of them. See `fanout.py`."""

from collector.fanout.fanout import Fanout, make_client, read_answer
from collector.fanout.rounds import Answered, Deadline, Request, Round, Silent, T

__all__ = ["Answered", "Deadline", "Fanout", "Request", "Round", "Silent", "T", "make_client", "read_answer"]
