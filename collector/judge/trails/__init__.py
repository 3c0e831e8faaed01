"""Waits that lead beyond the groups: who owes them, said in words, and how to ask about whoever nobody examined."""
