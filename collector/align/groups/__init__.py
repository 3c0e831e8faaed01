"""Process groups: the one table of who is how far in each, and who waits there for whom."""
