"""Which nodes to try together next, and what the outcomes prove: pure, the same outcomes prove the same."""
