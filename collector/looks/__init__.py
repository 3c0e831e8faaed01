"""Whom to look at next, by what the looks so far and the digests show: the way back from judging to gathering."""
